"""Record batches and offsets, without IO: headers, decoding and encoding, runs of batches, spans of offsets."""
