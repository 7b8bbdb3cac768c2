"""Line codecs and what carries their lines: compressors, decompressors, packing, checksums."""
