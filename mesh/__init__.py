"""kafka-mesh: one native-Kafka address in front of several Kafka clusters."""
