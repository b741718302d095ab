"""A policy worker in one file: agents may not look at the clock; everything else asks a person.

pip install iii-sdk==0.25.0
python policy.py
"""

import signal

from iii import InitOptions, register_worker

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
iii = register_worker(options=InitOptions(worker_name="policy-no-clocks"))


def check_permissions(request):
    if request["function_id"] == "demo::time":
        return {"decision": "deny", "rule_id": "no-clocks", "rule_action": "deny"}
    return {"decision": "needs_approval"}


iii.register_function("policy::check_permissions", check_permissions, description="Keeps agents from the clock")
signal.sigwait({signal.SIGINT, signal.SIGTERM})
iii.shutdown()
