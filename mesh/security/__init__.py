"""Who a client is and what it may do. No IO and no clock: files, sockets, threads and time are `mesh.listener`'s."""
