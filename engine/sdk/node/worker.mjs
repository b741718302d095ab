// A worker on the stock Node SDK that does what it is told, one JSON object a line: commands on
// standard input, {"n", "ok"} or {"n", "error"} for each and {"event"} for what the bus asks of it on
// standard output.
import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'
import { TriggerAction, registerWorker } from 'iii-sdk'
import { createChannel } from 'iii-sdk/helpers'

// The SDK logs to the console; standard output is for the lines alone.
console.log = console.debug = console.info = console.warn = console.error

const say = line => process.stdout.write(JSON.stringify(line) + '\n')

let iii
const functions = new Map()
const triggers = new Map()
const types = new Map()
const held = new Map() // calls that wait for "release", by number
let calls = 0

const sum = bytes => createHash('sha256').update(bytes).digest('hex')

// drain reads a channel to its end.
async function drain(reader) {
  const texts = []
  reader.onMessage(text => texts.push(text))
  const bytes = await reader.readAll()
  return { texts, bytes: bytes.length, sha256: sum(bytes) }
}

// fill writes texts, then size bytes, and ends the channel.
async function fill(writer, texts, size) {
  for (const text of texts) writer.sendMessage(text)
  const bytes = Buffer.alloc(size, 'x')
  if (size > 0) await new Promise((done, failed) => writer.stream.write(bytes, err => err ? failed(err) : done()))
  await new Promise(done => writer.stream.end(done))
  return { bytes: size, sha256: sum(bytes) }
}

const behaviours = {
  echo: (data, metadata) => ({ got: data, meta: metadata ?? null }),
  me: () => process.pid,
  number: () => ({ call: ++calls }),
  boom: () => { throw new TypeError('kaput') },
  boomstr: () => { throw 'a string' },
  undef: () => undefined,
  null: () => null,
  // hold tells of the call and waits to be told its result.
  hold: (data, metadata, id) => new Promise((resolve, reject) => {
    const call = ++calls
    held.set(call, { resolve, reject })
    say({ event: 'called', function_id: id, call, data, metadata: metadata ?? null })
  }),
  // tell tells of the call and answers at once.
  tell: (data, metadata, id) => { say({ event: 'called', function_id: id, call: ++calls, data, metadata: metadata ?? null }); return { ok: 1 } },
  // page answers a request over HTTP with its body in capitals, and returns before that is out.
  page: async data => {
    const body = await data.request_body.readAll()
    data.response.sendMessage(JSON.stringify({ type: 'set_status', status_code: 201 }))
    data.response.sendMessage(JSON.stringify({ type: 'set_headers', headers: { 'content-type': 'text/plain' } }))
    data.response.stream.end(Buffer.from(body.toString().toUpperCase()))
  },
  drain: data => drain(data.reader),
  fill: data => fill(data.writer, data.texts, data.size),
}

const ops = {
  connect: ({ url, options }) => { iii = registerWorker(url, options) },
  function: ({ id, does, invocation, options }) => {
    functions.set(id, iii.registerFunction(id, invocation ?? ((data, metadata) => behaviours[does](data, metadata, id)), options))
  },
  unregister: ({ id }) => { functions.get(id).unregister(); functions.delete(id) },
  call: ({ function_id, payload, metadata, timeout, enqueue, void: fire }) => iii.trigger({
    function_id, payload, metadata, timeoutMs: timeout,
    action: enqueue ? TriggerAction.Enqueue({ queue: enqueue }) : fire ? TriggerAction.Void() : undefined,
  }),
  // many calls one after the other, and tells how many answers were the right one.
  many: async ({ function_id, count }) => {
    let right = 0
    for (let i = 0; i < count; i++) right += (await iii.trigger({ function_id, payload: { i } })).got.i === i
    return right
  },
  release: ({ call, result, error }) => {
    const { resolve, reject } = held.get(call)
    held.delete(call)
    error ? reject(new Error(error)) : resolve(result)
  },
  trigger: ({ key, type, function_id, config, metadata }) => {
    triggers.set(key, iii.registerTrigger({ type, function_id, config, metadata }))
  },
  untrigger: ({ key }) => { triggers.get(key).unregister(); triggers.delete(key) },
  type: ({ id, description, fails }) => {
    types.set(id, iii.registerTriggerType({ id, description }, {
      registerTrigger: async binding => { say({ event: 'bind', type: id, ...binding }); if (fails) throw new Error(fails) },
      unregisterTrigger: async binding => say({ event: 'unbind', type: id, ...binding }),
    }))
  },
  untype: ({ id }) => { types.get(id).unregister(); types.delete(id) },
  // send makes a channel, hands its reader to a function and writes; receive is the other way round.
  send: async ({ function_id, texts, size }) => {
    const { writer, readerRef } = await createChannel(iii)
    const read = iii.trigger({ function_id, payload: { reader: readerRef } })
    const sent = await fill(writer, texts, size)
    return { sent, read: await read }
  },
  receive: async ({ function_id, texts, size, buffer }) => {
    const { reader, writerRef } = await createChannel(iii, buffer)
    const sent = iii.trigger({ function_id, payload: { writer: writerRef, texts, size } })
    const read = await drain(reader)
    return { sent: await sent, read }
  },
  shutdown: () => iii.shutdown(),
}

for await (const line of createInterface({ input: process.stdin })) {
  const { n, op, ...args } = JSON.parse(line)
  Promise.resolve().then(() => ops[op](args)).then(
    ok => say({ n, ok: ok ?? null }),
    error => say({ n, error: { name: error?.name ?? '', code: error?.code ?? '', message: String(error?.message ?? error) } }),
  )
}
process.exit(0)
