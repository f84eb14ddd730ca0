"""The tests of kgo that run."""

from __future__ import annotations

from typing import Final

from tests.outside.programs import Suite

SUITE: Final = Suite(
    run=(
        "TestClient_Produce",
        "TestConsumeTopicRetrieval",
        "TestConsumeTopicRetrieval_Many",
        "TestDirectPartitionPurge",
        "TestGroupETL",
        "TestGroupSimple",
        "TestIssue325",
        "TestIssue337",
        "TestIssue434",
        "TestIssue523",
        "TestIssue648",
        "TestIssue810",
        "TestIssue865",
        "TestIssue1034",
        "TestIssueFetchLargerThanBrokerMaxReadBytes",
        "TestPauseIssue489",
        "TestPauseIssueOct2023",
        "TestPing",
        "TestPollWaitStateNoUnderflow",
        "TestPooling",
        "TestShareGroup",
        "TestShareGroupETL",
        "TestShareGroupAckOnClose",
        "TestShareGroupOffsetsAdmin",
        "TestUnknownGroupOffsetFetchPinned",
    ),
    not_applicable={
        "TestAddRemovePartitions": "offsets: they are the mesh's own, and begin anywhere",
        "TestConsumeMaxDecompressBatchBytes": "offsets: they are the mesh's own, and begin anywhere",
        "TestConsumeRegex": "topics: only those of the configuration are shown, no internal ones",
        "Test848RegexBrokerResolves": "topics: only those of the configuration are shown, no internal ones",
        "TestTxnEtl": "transactions: offsets cannot be committed in one",
    },
)
