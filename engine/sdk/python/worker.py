"""A worker on the stock Python SDK that does what it is told, one JSON object a line.

Commands come on standard input; {"n", "ok"} or {"n", "error"} for each, and {"event"} for what the
bus asks of it, go to standard output.
"""

import asyncio
import hashlib
import json
import os
import sys
import threading
import warnings

from iii import InitOptions, TriggerAction, register_worker
from iii.helpers import create_channel_async
from iii.triggers import TriggerHandler

warnings.simplefilter("ignore", DeprecationWarning)

out = sys.stdout
sys.stdout = sys.stderr  # standard output is for the lines alone
lock = threading.Lock()


def say(line):
    with lock:
        out.write(json.dumps(line, default=lambda _: None) + "\n")  # channels have no text
        out.flush()


iii = None
functions, triggers, types, held = {}, {}, {}, {}
calls = 0


def digest(data):
    return hashlib.sha256(data).hexdigest()


async def drain(reader):
    texts = []
    reader.on_message(texts.append)
    data = await reader.read_all()
    return {"texts": texts, "bytes": len(data), "sha256": digest(data)}


async def fill(writer, texts, size):
    for text in texts:
        await writer.send_message_async(text)
    data = b"x" * size
    if size:
        await writer.write(data)
    await writer.close_async()
    return {"bytes": size, "sha256": digest(data)}


def behaviour(id, does):
    async def echo(data, metadata=None):
        return {"got": data, "meta": metadata}

    async def me(data):
        return os.getpid()

    async def number(data):
        global calls
        calls += 1
        return {"call": calls}

    async def boom(data):
        raise TypeError("kaput")

    async def null(data):
        return None

    async def hold(data, metadata=None):
        global calls
        calls += 1
        call, future = calls, asyncio.get_running_loop().create_future()
        held[call] = future
        say({"event": "called", "function_id": id, "call": call, "data": data, "metadata": metadata})
        return await future

    async def tell(data, metadata=None):
        global calls
        calls += 1
        say({"event": "called", "function_id": id, "call": calls, "data": data, "metadata": metadata})
        return {"ok": 1}

    async def page(data):
        body = await data["request_body"].read_all()
        await data["response"].send_message_async(json.dumps({"type": "set_status", "status_code": 201}))
        await data["response"].send_message_async(json.dumps({"type": "set_headers", "headers": {"content-type": "text/plain"}}))
        await data["response"].write(body.upper())
        await data["response"].close_async()

    async def drain_it(data):
        return await drain(data["reader"])

    async def fill_it(data):
        return await fill(data["writer"], data["texts"], data["size"])

    return {"echo": echo, "me": me, "number": number, "boom": boom, "null": null, "hold": hold, "tell": tell, "page": page, "drain": drain_it, "fill": fill_it}[does]


class Handler(TriggerHandler):
    def __init__(self, id, fails):
        self.id, self.fails = id, fails

    async def register_trigger(self, config):
        say({"event": "bind", "type": self.id, "id": config.id, "function_id": config.function_id, "config": config.config, "metadata": config.metadata})
        if self.fails:
            raise RuntimeError(self.fails)

    async def unregister_trigger(self, config):
        say({"event": "unbind", "type": self.id, "id": config.id, "function_id": config.function_id})


def connect(url, options=None):
    global iii
    o = options or {}
    iii = register_worker(url, InitOptions(worker_name=o.get("workerName"), worker_description=o.get("workerDescription"), headers=o.get("headers")))


def register_function(id, does, options=None):
    o = options or {}
    functions[id] = iii.register_function(id, behaviour(id, does), **o)


async def call(function_id, payload=None, metadata=None, timeout=None, enqueue=None, void=False):
    request = {"function_id": function_id, "payload": payload}
    if metadata is not None:
        request["metadata"] = metadata
    if timeout is not None:
        request["timeout_ms"] = timeout
    if enqueue:
        request["action"] = TriggerAction.Enqueue(queue=enqueue)
    if void:
        request["action"] = TriggerAction.Void()
    result = await iii.trigger_async(request)
    return result.model_dump() if hasattr(result, "model_dump") else result


async def many(function_id, count):
    """Calls one after the other, and tells how many answers were the right one."""
    right = 0
    for i in range(count):
        right += (await call(function_id, {"i": i}))["got"]["i"] == i
    return right


async def release(call, result=None, error=None):
    future = held.pop(call)
    if error:
        future.set_exception(RuntimeError(error))
    else:
        future.set_result(result)


def trigger(key, type, function_id, config, metadata=None):
    triggers[key] = iii.register_trigger({"type": type, "function_id": function_id, "config": config, "metadata": metadata})


def trigger_type(id, description, fails=None):
    types[id] = iii.register_trigger_type({"id": id, "description": description}, Handler(id, fails))


async def send(function_id, texts, size):
    channel = await create_channel_async(iii)
    read = asyncio.ensure_future(call(function_id, {"reader": channel.reader_ref.model_dump()}))
    sent = await fill(channel.writer, texts, size)
    return {"sent": sent, "read": await read}


async def receive(function_id, texts, size, buffer=None):
    channel = await create_channel_async(iii, buffer)
    sent = asyncio.ensure_future(call(function_id, {"writer": channel.writer_ref.model_dump(), "texts": texts, "size": size}))
    read = await drain(channel.reader)
    return {"sent": await sent, "read": read}


ops = {
    "connect": connect,
    "function": register_function,
    "unregister": lambda id: functions.pop(id).unregister(),
    "call": call,
    "many": many,
    "release": release,
    "trigger": trigger,
    "untrigger": lambda key: triggers.pop(key).unregister(),
    "type": trigger_type,
    "untype": lambda id: iii.unregister_trigger_type({"id": id, "description": ""}) and None,
    "send": send,
    "receive": receive,
    "shutdown": lambda: iii.shutdown(),
}


def answer(n, op, args):
    """Synchronous operations run here, the others on the loop of the SDK."""

    def done(future):
        try:
            say({"n": n, "ok": future.result()})
        except BaseException as err:
            say({"n": n, "error": {"name": type(err).__name__, "code": str(getattr(err, "code", "")), "message": str(err)}})

    if asyncio.iscoroutinefunction(ops[op]):
        asyncio.run_coroutine_threadsafe(ops[op](**args), iii._loop).add_done_callback(done)
        return
    try:
        result = ops[op](**args)
        say({"n": n, "ok": result if isinstance(result, (dict, str, int, list)) else None})
    except Exception as err:
        say({"n": n, "error": {"name": type(err).__name__, "code": str(getattr(err, "code", "")), "message": str(err)}})


for line in sys.stdin:
    command = json.loads(line)
    answer(command.pop("n"), command.pop("op"), command)
os._exit(0)
