"""Types of operations that run once on purpose: variables, tables, and what updates them."""

from __future__ import annotations

from replicate.layouts.rules.whole import once

once(
    "trees and linear models are trained as a whole",
    """
    BoostedTreesAggregateStats BoostedTreesBucketize BoostedTreesCalculateBestFeatureSplit
    BoostedTreesCalculateBestFeatureSplitV2 BoostedTreesCalculateBestGainsPerFeature
    BoostedTreesCenterBias BoostedTreesCreateEnsemble BoostedTreesCreateQuantileStreamResource
    BoostedTreesDeserializeEnsemble BoostedTreesEnsembleResourceHandleOp
    BoostedTreesExampleDebugOutputs BoostedTreesFlushQuantileSummaries
    BoostedTreesGetEnsembleStates BoostedTreesMakeQuantileSummaries BoostedTreesMakeStatsSummary
    BoostedTreesPredict BoostedTreesQuantileStreamResourceAddSummaries
    BoostedTreesQuantileStreamResourceDeserialize BoostedTreesQuantileStreamResourceFlush
    BoostedTreesQuantileStreamResourceGetBucketBoundaries
    BoostedTreesQuantileStreamResourceHandleOp BoostedTreesSerializeEnsemble
    BoostedTreesSparseAggregateStats BoostedTreesSparseCalculateBestFeatureSplit
    BoostedTreesTrainingPredict BoostedTreesUpdateEnsemble BoostedTreesUpdateEnsembleV2
    IsBoostedTreesEnsembleInitialized IsBoostedTreesQuantileStreamResourceInitialized SdcaFprint
    SdcaOptimizer SdcaOptimizerV2 SdcaShrinkL1 TensorForestCreateTreeVariable
    TensorForestTreeDeserialize TensorForestTreeIsInitializedOp TensorForestTreePredict
    TensorForestTreeResourceHandleOp TensorForestTreeSerialize TensorForestTreeSize
    """,
)

once(
    "it counts or locks for all towers",
    """
    AccumulatorApplyGradient AccumulatorNumAccumulated AccumulatorSetGlobalStep
    AccumulatorTakeGradient ConditionalAccumulator ConsumeMutexLock MutexLock MutexV2
    ResourceAccumulatorApplyGradient ResourceAccumulatorNumAccumulated
    ResourceAccumulatorSetGlobalStep ResourceAccumulatorTakeGradient
    ResourceConditionalAccumulator SparseAccumulatorApplyGradient SparseAccumulatorTakeGradient
    SparseConditionalAccumulator
    """,
)

once(
    "it updates a variable, once, by a whole value",
    """
    ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam ApplyAddSign
    ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent ApplyMomentum ApplyPowerSign
    ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp Assign AssignAdd
    AssignAddVariableOp AssignSub AssignSubVariableOp AssignVariableOp AssignVariableXlaConcatND
    CountUpTo InplaceAdd InplaceSub InplaceUpdate ResourceApplyAdaMax ResourceApplyAdadelta
    ResourceApplyAdagrad ResourceApplyAdagradDA ResourceApplyAdagradV2 ResourceApplyAdam
    ResourceApplyAdamWithAmsgrad ResourceApplyAddSign ResourceApplyCenteredRMSProp
    ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyGradientDescent
    ResourceApplyKerasMomentum ResourceApplyMomentum ResourceApplyPowerSign
    ResourceApplyProximalAdagrad ResourceApplyProximalGradientDescent ResourceApplyRMSProp
    ResourceCountUpTo ResourceScatterAdd ResourceScatterDiv ResourceScatterMax
    ResourceScatterMin ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdMax
    ResourceScatterNdMin ResourceScatterNdSub ResourceScatterNdUpdate ResourceScatterSub
    ResourceScatterUpdate ResourceSparseApplyAdadelta ResourceSparseApplyAdagrad
    ResourceSparseApplyAdagradDA ResourceSparseApplyAdagradV2 ResourceSparseApplyCenteredRMSProp
    ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 ResourceSparseApplyKerasMomentum
    ResourceSparseApplyMomentum ResourceSparseApplyProximalAdagrad
    ResourceSparseApplyProximalGradientDescent ResourceSparseApplyRMSProp ScatterAdd ScatterDiv
    ScatterMax ScatterMin ScatterMul ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdSub
    ScatterNdUpdate ScatterSub ScatterUpdate SparseApplyAdadelta SparseApplyAdagrad
    SparseApplyAdagradDA SparseApplyAdagradV2 SparseApplyCenteredRMSProp SparseApplyFtrl
    SparseApplyFtrlV2 SparseApplyMomentum SparseApplyProximalAdagrad
    SparseApplyProximalGradientDescent SparseApplyRMSProp
    """,
)

once(
    "it is a variable, which all towers share",
    """
    DeepCopy DestroyResourceOp DestroyTemporaryVariable DisableCopyOnRead
    IsResourceHandleRefCounting IsVariableInitialized MakeWeakResourceHandle ReadVariableOp
    ReadVariableXlaSplitND RefIdentity TemporaryVariable VarHandleOp VarIsInitializedOp Variable
    VariableShape VariableV2
    """,
)

once(
    "it writes or reads checkpoints",
    """
    DistributedSave GenerateVocabRemapping ImmutableConst LoadAndRemapMatrix MergeV2Checkpoints
    Restore RestoreSlice RestoreV2 Save SaveSlices SaveV2 ShardedFilename ShardedFilespec
    """,
)

once(
    "it is a table, which all towers share",
    """
    AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable
    AnonymousMutableHashTableOfTensors HashTable HashTableV2 InitializeTable
    InitializeTableFromTextFile InitializeTableFromTextFileV2 InitializeTableV2
    LookupTableExport LookupTableExportV2 LookupTableImport LookupTableImportV2
    LookupTableInsert LookupTableInsertV2 LookupTableRemoveV2 LookupTableSize LookupTableSizeV2
    MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors
    MutableHashTableOfTensorsV2 MutableHashTableV2
    """,
)

once(
    "it keeps a value between runs of a session",
    "DeleteSessionTensor GetSessionHandle GetSessionHandleV2 GetSessionTensor",
)
