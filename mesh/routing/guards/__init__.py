"""Who may do what of each API of relays and unions, by the rules of the virtual cluster.

`table` has a guard for every API that a union serves, after Kafka's KafkaApis and ControllerApis. `judging` asks it
about one request: what of it is left, what is refused, and what is to be done to the answer. `translation` lets a
request pass of which all is allowed. `metadata` narrows Metadata, which is not divided like others.
"""
