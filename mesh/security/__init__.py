"""Identity and permissions of clients. No IO and no clock: `mesh.listener` has the files, sockets, threads and
times."""
