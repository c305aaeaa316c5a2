// kafkajs brings gzip; the others are registered by whoever wants them.
'use strict';

const { CompressionCodecs, CompressionTypes } = require('kafkajs');
const snappy = require('kafkajs-snappy');
const lz4 = require('lz4js');
const { ZstdCodec } = require('zstd-codec');

CompressionCodecs[CompressionTypes.Snappy] = snappy;

CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});

const zstd = new Promise((done) => ZstdCodec.run((binding) => done(new binding.Simple())));
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
});
