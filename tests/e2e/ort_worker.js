// Runs models with ONNX Runtime for fuzz_ort.py. A line of stdin is {model, inputs: {name: {type, dims, data}}} with a file's
// path and base64 of little-endian elements; the answer is {outputs: {name: {type, dims, data}}} or {error}.
'use strict';
const readline = require('readline');
const ort = require(process.argv[2]);

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, float16: Uint16Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
};

function given({type, dims, data}) {
  if (type === 'string') return new ort.Tensor('string', data, dims);
  const bytes = Buffer.from(data, 'base64');
  const copy = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  return new ort.Tensor(type, new ARRAYS[type](copy), dims);
}

function result(tensor) {
  if (!(tensor instanceof ort.Tensor)) throw new Error('not a tensor');
  const {type, dims, data} = tensor;
  if (type === 'string') return {type, dims, data};
  return {type, dims, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64')};
}

async function answer({model, inputs}) {
  const session = await ort.InferenceSession.create(model, {logSeverityLevel: 4, intraOpNumThreads: 1, graphOptimizationLevel: 'disabled'});
  const feeds = Object.fromEntries(Object.entries(inputs).map(([name, value]) => [name, given(value)]));
  const found = await session.run(feeds);
  await session.release();
  return {outputs: Object.fromEntries(session.outputNames.map(name => [name, result(found[name])]))};
}

(async () => {
  for await (const line of readline.createInterface({input: process.stdin})) {
    let reply;
    try {
      reply = await answer(JSON.parse(line));
    } catch (error) {
      reply = {error: String(error.message || error)};
    }
    process.stdout.write(JSON.stringify(reply) + '\n');
  }
})();
