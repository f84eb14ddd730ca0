"""Guards: the checks of each API's requests by the rules of the virtual cluster, for relays and unions.

`table` has a guard for every API that a union serves, modelled on Kafka's KafkaApis and ControllerApis. `judging`
applies it to one request: it separates the allowed part from the refused one, and changes the answer. `translation`
passes fully allowed requests on. `metadata` handles Metadata, whose requests are not divided like others.
"""
