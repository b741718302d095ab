// A model provider in one file: it answers in capitals, and asks for the time when it is asked for it.
//   npm install iii-sdk@0.22.1
//   node provider.mjs &
//   harness turn "hello" --provider parrot --model loud
import { registerWorker } from 'iii-sdk'

const url = process.env.III_URL ?? 'ws://127.0.0.1:49134'
const iii = registerWorker(url, { workerName: 'provider-parrot', workerDescription: 'a model that repeats' })

const text = message => message.content.filter(b => b.type === 'text').map(b => b.text).join(' ')

// answer is the assistant's message to a conversation.
function answer({ model, messages }) {
  const last = messages.at(-1)
  const said = text(last)
  const asks = last.role === 'user' && /what time/i.test(said)
  return {
    role: 'assistant', model, provider: 'parrot', timestamp: Date.now(),
    content: asks
      ? [{ type: 'function_call', id: 'clock', function_id: 'agent_trigger', arguments: { function: 'demo::time', payload: {} } }]
      : [{ type: 'text', text: said.toUpperCase() }],
    stop_reason: asks ? 'function_call' : 'end',
    error_message: null, error_kind: null,
    usage: { input: said.length, output: said.length, cache_read: 0, cache_write: 0 },
  }
}

// stream writes events into the channel of the turn; the last one holds the whole message.
iii.registerFunction('provider::parrot::stream', async request => {
  const send = event => request.writer_ref.sendMessage(JSON.stringify(event))
  const message = answer(request)
  send({ type: 'start' })
  if (message.stop_reason === 'end') {
    send({ type: 'text_start' })
    for (const word of text(message).split(/(?<= )/)) send({ type: 'text_delta', delta: word })
    send({ type: 'text_end' })
  }
  send({ type: 'stop', stop_reason: message.stop_reason })
  send({ type: 'done', message })
  request.writer_ref.close()
  return { ok: true }
}, { description: 'Answers in capitals, word by word' })

// complete is the same without a channel.
iii.registerFunction('provider::parrot::complete', async request => answer(request))

process.on('SIGTERM', () => iii.shutdown().then(() => process.exit(0)))
