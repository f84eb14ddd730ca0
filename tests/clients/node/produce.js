// The producers that run on Node.js; see producing.py. The first argument is the library.

import { Producer } from '@platformatic/kafka'
import kafkajs from 'kafkajs'

const KEYS = 17
const [library, text] = process.argv.slice(2)
const feed = JSON.parse(text)
const numbers = [...Array(feed.count).keys()]
const key = number => `key-${number % KEYS}`
const value = number => `${feed.client_id}-${number}|`

function acknowledged(number) {
  process.stdout.write(JSON.stringify({ number, partition: -1, offset: -1 }) + '\n')
}

async function withKafkajs() {
  const { Kafka, logLevel } = kafkajs
  const kafka = new Kafka({ clientId: feed.client_id, brokers: [feed.bootstrap_servers], logLevel: logLevel.WARN })
  const producer = kafka.producer({ idempotent: true, createPartitioner: kafkajs.Partitioners.DefaultPartitioner })
  await producer.connect()
  const messages = numbers.map(number => ({ key: key(number), value: value(number) }))
  await producer.send({ topic: feed.topic, acks: -1, messages })
  await producer.disconnect()
}

async function withPlatformatic() {
  const producer = new Producer({
    clientId: feed.client_id, bootstrapBrokers: [feed.bootstrap_servers], idempotent: true
  })
  const messages = numbers.map(number => ({
    topic: feed.topic, key: Buffer.from(key(number)), value: Buffer.from(value(number))
  }))
  await producer.send({ messages, acks: -1 })
  await producer.close()
}

await (library === 'kafkajs' ? withKafkajs() : withPlatformatic())
numbers.forEach(acknowledged)
