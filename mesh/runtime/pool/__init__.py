"""The runtime of a pool: clients' connections, a loop that executes effects, engines, tools' queries, dead letters.

`runtime.PoolRuntime` is the target; `step_loop` executes the effects of one step before the next step starts.
"""
