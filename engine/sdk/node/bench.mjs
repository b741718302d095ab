// One end of the measurements of scripts/bench, on the stock Node SDK: "serve" answers and notes when it
// was called, "ask" calls and prints one JSON line per measurement. The clock is one for both processes.
import { TriggerAction, registerWorker } from 'iii-sdk'

console.log = console.debug = console.info = console.warn = console.error
const [role, url, scale = '1'] = process.argv.slice(2)
const times = n => Math.max(8, Math.round(n * Number(scale)))
const iii = registerWorker(url, { workerName: `bench-${role}`, headers: process.env.BENCH_TOKEN ? { Authorization: `Bearer ${process.env.BENCH_TOKEN}` } : undefined })
const say = line => process.stdout.write(JSON.stringify(line) + '\n')
const now = () => Number(process.hrtime.bigint()) / 1e6
const call = (function_id, payload) => iii.trigger({ function_id, payload })

function serve() {
  let seen = [] // of the measurement under way: [ms from sending to handler, when it came]
  let wanted = 0
  let reached
  const note = t => {
    seen.push([now() - t, now()])
    if (seen.length === wanted) reached()
  }
  iii.registerFunction('bench::echo', async data => data)
  iii.registerFunction('bench::void', async data => note(data.t))
  iii.registerFunction('bench::changed', async event => { if (event.new_value) note(event.new_value.t) })
  iii.registerFunction('bench::job', async data => note(data.t))
  iii.registerFunction('bench::reset', async () => { seen = []; wanted = 0 })
  // all waits for so many calls and gives what was noted.
  iii.registerFunction('bench::all', ({ count }) => new Promise(resolve => {
    wanted = count
    reached = () => resolve(seen)
    if (seen.length >= count) reached()
  }))
  iii.registerTrigger({ type: 'state', function_id: 'bench::changed', config: { scope: 'bench-trigger' } })
  iii.registerTrigger({ type: 'durable:subscriber', function_id: 'bench::job', config: { topic: 'bench' } })
}

// timed gives the milliseconds that each of count runs took.
async function timed(count, run) {
  const took = []
  for (let i = 0; i < count; i++) {
    const t = now()
    await run(i)
    took.push(now() - t)
  }
  return took
}

// flood keeps width runs under way.
async function flood(count, width, run) {
  const took = []
  let next = 0
  const start = now()
  await Promise.all(Array.from({ length: width }, async () => {
    while (next++ < count) {
      const t = now()
      await run()
      took.push(now() - t)
    }
  }))
  return { took, per_second: count / (now() - start) * 1000 }
}

// heard sends count times, waits until all were handled, and gives the times from sending to the handler.
async function heard(count, send, oneByOne) {
  await call('bench::reset', {})
  for (let i = 0; i < count; i++) {
    await send(i)
    if (oneByOne) await call('bench::all', { count: i + 1 })
  }
  return (await call('bench::all', { count })).map(([took]) => took)
}

async function ask() {
  for (const function_id of ['bench::changed', 'bench::job']) {
    while (!(await call('engine::registered-triggers::list', { function_id })).registered_triggers.length);
  }
  await timed(times(500), () => call('bench::echo', { n: 1 })) // warm
  say({ name: 'sync', took: await timed(times(5000), i => call('bench::echo', { n: i })) })
  say({ name: 'flood', ...await flood(times(30000), 64, () => call('bench::echo', { n: 1 })) })
  say({ name: 'void', took: await heard(times(2000), () => iii.trigger({ function_id: 'bench::void', payload: { t: now() }, action: TriggerAction.Void() }), true) })
  say({ name: 'set', took: await timed(times(1000), i => call('state::set', { scope: 'bench', key: `k${i % 50}`, value: { i } })) })
  say({ name: 'changed', took: await heard(times(500), i => call('state::set', { scope: 'bench-trigger', key: `k${i % 50}`, value: { t: now() } }), true) })
  const publish = () => call('iii::durable::publish', { topic: 'bench', data: { t: now() } })
  say({ name: 'publish', took: await heard(times(300), publish, true) })
  await call('bench::reset', {})
  const start = now()
  const jobs = times(1000)
  const sending = flood(jobs, 16, publish)
  const seen = await call('bench::all', { count: jobs })
  await sending
  say({ name: 'jobs', took: [], per_second: jobs / (Math.max(...seen.map(([, at]) => at)) - start) * 1000 })
  say({ name: 'end' })
}

if (role === 'serve') serve()
else await ask()
