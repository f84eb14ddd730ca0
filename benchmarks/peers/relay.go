// relay PORT TARGET_PORT passes bytes on and knows nothing of Kafka. On Linux io.Copy between two sockets is splice:
// no byte comes into this process. What any hop costs at least.
package main

import (
	"io"
	"log"
	"net"
	"os"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(client.(*net.TCPConn))
	}
}

func serve(client *net.TCPConn) {
	target, err := net.Dial("tcp", "127.0.0.1:"+os.Args[2])
	if err != nil {
		client.Close()
		return
	}
	go pass(client, target.(*net.TCPConn))
	pass(target.(*net.TCPConn), client)
}

func pass(to, from *net.TCPConn) {
	io.Copy(to, from)
	to.Close()
	from.Close()
}
