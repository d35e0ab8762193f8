"""Types of operations that run once on purpose: summaries, messages, and files."""

from __future__ import annotations

from replicate.layouts.rules.whole import once

once(
    "it says or checks something, once",
    """
    Assert CheckPinned Copy CopyHost DebugGradientRefIdentity DebugIdentity DebugIdentityV2
    DebugIdentityV3 DebugNanCount DebugNumericSummary DebugNumericSummaryV2 DumpTensor
    GetDeadline Print PrintV2 Timestamp
    """,
)

once(
    "it writes a summary of the whole",
    """
    AudioSummary AudioSummaryV2 CloseSummaryWriter CreateSummaryDbWriter CreateSummaryFileWriter
    FlushSummaryWriter HistogramSummary ImageSummary ImportEvent MergeSummary ScalarSummary
    SummaryWriter TensorSummary TensorSummaryV2 WriteAudioSummary WriteGraphSummary
    WriteHistogramSummary WriteImageSummary WriteRawProtoSummary WriteScalarSummary WriteSummary
    """,
)

once("it reads or writes a file", "FileSystemSetConfiguration MatchingFiles ReadFile WriteFile")

once(
    "it calls another program",
    """
    DeleteRpcFutureResource Rpc RpcCall RpcCheckStatus RpcClient RpcGetValue RpcServer
    RpcServerRegister RpcServerStart TryRpc
    """,
)
