"""Types of operations that run once on purpose: programs of devices, and meetings between them."""

from __future__ import annotations

from replicate.layouts.rules.whole import once

once(
    "it reads or writes tables of a TPU's embeddings",
    """
    CollateTPUEmbeddingMemory ComputeDedupDataSize ComputeDedupDataSizeV2
    ComputeDedupDataTupleMask ComputeDedupDataTupleMaskV2 ConfigureTPUEmbedding
    ConfigureTPUEmbeddingHost ConfigureTPUEmbeddingMemory ConnectTPUEmbeddingHosts
    ConvertToCooTensor ConvertToListOfSparseCoreCooTensors
    ConvertToSparseCoreCsrWrappedCooTensor DynamicEnqueueTPUEmbeddingArbitraryTensorBatch
    DynamicEnqueueTPUEmbeddingRaggedTensorBatch EnqueueTPUEmbeddingArbitraryTensorBatch
    EnqueueTPUEmbeddingBatch EnqueueTPUEmbeddingIntegerBatch
    EnqueueTPUEmbeddingRaggedTensorBatch EnqueueTPUEmbeddingSparseBatch
    EnqueueTPUEmbeddingSparseTensorBatch ExecuteTPUEmbeddingPartitioner FinalizeTPUEmbedding
    FinalizeTPUEmbeddingV2 GetMinibatchSplitsWithPhysicalReplica
    GetMinibatchesInCsrWithPhysicalReplica GetStatsFromListOfSparseCoreCooTensors
    IsTPUEmbeddingInitialized LoadAllTPUEmbeddingParameters LoadTPUEmbeddingADAMParameters
    LoadTPUEmbeddingADAMParametersGradAccumDebug LoadTPUEmbeddingAdadeltaParameters
    LoadTPUEmbeddingAdadeltaParametersGradAccumDebug LoadTPUEmbeddingAdagradMomentumParameters
    LoadTPUEmbeddingAdagradParameters LoadTPUEmbeddingAdagradParametersGradAccumDebug
    LoadTPUEmbeddingCenteredRMSPropParameters LoadTPUEmbeddingFTRLParameters
    LoadTPUEmbeddingFTRLParametersGradAccumDebug LoadTPUEmbeddingFrequencyEstimatorParameters
    LoadTPUEmbeddingMDLAdagradLightParameters LoadTPUEmbeddingMomentumParameters
    LoadTPUEmbeddingMomentumParametersGradAccumDebug LoadTPUEmbeddingProximalAdagradParameters
    LoadTPUEmbeddingProximalAdagradParametersGradAccumDebug
    LoadTPUEmbeddingProximalYogiParameters LoadTPUEmbeddingRMSPropParameters
    LoadTPUEmbeddingRMSPropParametersGradAccumDebug
    LoadTPUEmbeddingStochasticGradientDescentParameters MergeDedupData
    RecvTPUEmbeddingActivations RetrieveAllTPUEmbeddingParameters
    RetrieveTPUEmbeddingADAMParameters RetrieveTPUEmbeddingADAMParametersGradAccumDebug
    RetrieveTPUEmbeddingAdadeltaParameters RetrieveTPUEmbeddingAdadeltaParametersGradAccumDebug
    RetrieveTPUEmbeddingAdagradMomentumParameters RetrieveTPUEmbeddingAdagradParameters
    RetrieveTPUEmbeddingAdagradParametersGradAccumDebug
    RetrieveTPUEmbeddingCenteredRMSPropParameters RetrieveTPUEmbeddingFTRLParameters
    RetrieveTPUEmbeddingFTRLParametersGradAccumDebug
    RetrieveTPUEmbeddingFrequencyEstimatorParameters
    RetrieveTPUEmbeddingMDLAdagradLightParameters RetrieveTPUEmbeddingMomentumParameters
    RetrieveTPUEmbeddingMomentumParametersGradAccumDebug
    RetrieveTPUEmbeddingProximalAdagradParameters
    RetrieveTPUEmbeddingProximalAdagradParametersGradAccumDebug
    RetrieveTPUEmbeddingProximalYogiParameters RetrieveTPUEmbeddingRMSPropParameters
    RetrieveTPUEmbeddingRMSPropParametersGradAccumDebug
    RetrieveTPUEmbeddingStochasticGradientDescentParameters SendTPUEmbeddingGradients
    SortListOfSparseCoreCooTensors SplitDedupData StoreMinibatchStatisticsInFdo
    TPUEmbeddingActivations XlaRecvTPUEmbeddingActivations XlaRecvTPUEmbeddingActivationsV2
    XlaRecvTPUEmbeddingDeduplicationData XlaRecvTPUEmbeddingDeduplicationDataV2
    XlaSendTPUEmbeddingGradients XlaSendTPUEmbeddingGradientsV2 XlaSparseActivationsUnstack
    XlaSparseCoreAdagrad XlaSparseCoreAdagradMomentum XlaSparseCoreAdam XlaSparseCoreFtrl
    XlaSparseCoreSgd XlaSparseDenseMatmul
    XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdagradAndCsrInput
    XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdagradMomentumAndCsrInput
    XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdamAndCsrInput
    XlaSparseDenseMatmulCustomCombinerOnTcGradWithCsrInput
    XlaSparseDenseMatmulCustomCombinerOnTcGradWithFtrlAndCsrInput
    XlaSparseDenseMatmulCustomCombinerOnTcGradWithSgdAndCsrInput
    XlaSparseDenseMatmulCustomCombinerOnTcWithCsrInput
    XlaSparseDenseMatmulGradWithAdagradAndCsrInput
    XlaSparseDenseMatmulGradWithAdagradAndStaticBufferSize
    XlaSparseDenseMatmulGradWithAdagradMomentumAndCsrInput
    XlaSparseDenseMatmulGradWithAdagradMomentumAndStaticBufferSize
    XlaSparseDenseMatmulGradWithAdamAndCsrInput
    XlaSparseDenseMatmulGradWithAdamAndStaticBufferSize XlaSparseDenseMatmulGradWithCsrInput
    XlaSparseDenseMatmulGradWithFtrlAndCsrInput
    XlaSparseDenseMatmulGradWithFtrlAndStaticBufferSize
    XlaSparseDenseMatmulGradWithSgdAndCsrInput
    XlaSparseDenseMatmulGradWithSgdAndStaticBufferSize XlaSparseDenseMatmulWithCsrInput
    XlaSparseDenseMatmulWithStaticBufferSize XlaSparseGradientsStack
    """,
)

once(
    "it is part of a program for TPUs",
    """
    ComputeBatchSize ConfigureAndInitializeGlobalTPU ConfigureDistributedTPU CrossReplicaSum
    DTensorSetGlobalTPUArray GetTpuTaskId GlobalIterId InfeedDequeue InfeedDequeueTuple
    InfeedEnqueue InfeedEnqueuePrelinearizedBuffer InfeedEnqueueTuple KthOrderStatistic
    MakeUnique OutfeedDequeue OutfeedDequeueTuple OutfeedDequeueTupleV2 OutfeedDequeueV2
    OutfeedEnqueue OutfeedEnqueueTuple Prelinearize PrelinearizeTuple ShutdownDistributedTPU
    ShutdownTPUSystem TPUAnnotateTensorsWithDynamicShape TPUCompilationResult TPUCompile
    TPUCompileSucceededAssert TPUCopyWithDynamicShape TPUDummyInput TPUExecute
    TPUExecuteAndUpdateVariables TPUOrdinalSelector TPUPartitionedCall TPUPartitionedInput
    TPUPartitionedInputV2 TPUPartitionedOutput TPUPartitionedOutputV2 TPUReplicateMetadata
    TPUReplicatedInput TPUReplicatedOutput TPUReshardVariables TPURoundRobin TopKUnique
    TopKWithUnique TpuHandleToProtoKey UpdateTaskIdAndGlobalCoreArray WorkerHeartbeat
    """,
)

once(
    "it is part of a program for XLA",
    """
    XlaAllReduce XlaBroadcastHelper XlaCallModule XlaClusterOutput XlaConcatND XlaConv XlaConvV2
    XlaCustomCall XlaCustomCallV2 XlaDequantize XlaDot XlaDotV2 XlaDynamicSlice
    XlaDynamicUpdateSlice XlaEinsum XlaGather XlaHostCompute XlaIf XlaKeyValueSort XlaLaunch
    XlaLaunchV2 XlaOptimizationBarrier XlaPad XlaRecv XlaRecvFromHost XlaReduce
    XlaReducePrecision XlaReduceScatter XlaReduceWindow XlaRemoveDynamicDimensionSize
    XlaReplicaId XlaRngBitGenerator XlaScatter XlaSelectAndScatter XlaSelfAdjointEig XlaSend
    XlaSendToHost XlaSetBound XlaSetDynamicDimensionSize XlaSharding XlaSort XlaSplitND
    XlaSpmdFullToShardShape XlaSpmdShardToFullShape XlaSvd XlaVariadicReduce XlaVariadicReduceV2
    XlaVariadicSort XlaWhile
    """,
)

once(
    "devices meet in it",
    """
    AllToAll CollectiveAllToAllV2 CollectiveAllToAllV3 CollectiveAssignGroupV2
    CollectiveBcastRecv CollectiveBcastRecvV2 CollectiveBcastSend CollectiveBcastSendV2
    CollectiveGather CollectiveGatherV2 CollectiveInitializeCommunicator CollectivePermute
    CollectiveReduce CollectiveReduceScatterV2 CollectiveReduceV2 CollectiveReduceV3 CopyToMesh
    CopyToMeshGrad DTensorAllGather DTensorAllReduce DTensorAllScatter DTensorAllToAll
    DTensorReduceScatter DTensorRestoreV2 NcclAllReduce NcclBroadcast NcclReduce Recv Relayout
    RelayoutLike Send SyncDevice
    """,
)
