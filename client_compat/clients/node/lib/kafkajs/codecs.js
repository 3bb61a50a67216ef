import { promisify } from 'node:util';
import zlib from 'node:zlib';

import snappy from 'kafkajs-snappy';
import lz4 from 'lz4-napi';

/**
 * kafkajs brings gzip; the others are registered by its users. Snappy has a plugin package; LZ4 is the frame format, which lz4-napi speaks;
 * Zstandard comes with Node.js itself since 22.15. A codec here is what kafkajs asks for: a factory of `compress(encoder)` and `decompress(buffer)`.
 */
export function registerCodecs(codecs, types) {
  codecs[types.Snappy] = snappy;
  codecs[types.LZ4] = () => ({
    compress: (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: (buffer) => lz4.decompressFrame(buffer),
  });
  if (zlib.zstdCompress === undefined) return;
  const compress = promisify(zlib.zstdCompress);
  const decompress = promisify(zlib.zstdDecompress);
  codecs[types.ZSTD] = () => ({ compress: (encoder) => compress(encoder.buffer), decompress });
}
