"""Types of operations that run once on purpose: those of `tf.contrib` alone."""

from __future__ import annotations

from replicate.layouts.rules.whole import once

once(
    "trees are trained as a whole",
    """
    BuildCategoricalEqualitySplits BuildDenseInequalitySplits BuildSparseInequalitySplits
    CenterTreeEnsembleBias CreateFertileStatsVariable CreateQuantileAccumulator
    CreateStatsAccumulatorScalar CreateStatsAccumulatorTensor CreateTreeEnsembleVariable
    CreateTreeVariable DecisionTreeEnsembleResourceHandleOp DecisionTreeResourceHandleOp
    FeatureUsageCounts FertileStatsDeserialize FertileStatsIsInitializedOp
    FertileStatsResourceHandleOp FertileStatsSerialize FinalizeTree
    GradientTreesPartitionExamples GradientTreesPrediction GradientTreesPredictionVerbose
    GrowTreeEnsemble GrowTreeV4 MakeQuantileSummaries ProcessInputV4
    QuantileAccumulatorAddSummaries QuantileAccumulatorDeserialize QuantileAccumulatorFlush
    QuantileAccumulatorFlushSummary QuantileAccumulatorGetBuckets
    QuantileAccumulatorIsInitialized QuantileAccumulatorSerialize QuantileBuckets
    QuantileStreamResourceHandleOp Quantiles StatsAccumulatorScalarAdd
    StatsAccumulatorScalarDeserialize StatsAccumulatorScalarFlush
    StatsAccumulatorScalarIsInitialized StatsAccumulatorScalarMakeSummary
    StatsAccumulatorScalarResourceHandleOp StatsAccumulatorScalarSerialize
    StatsAccumulatorTensorAdd StatsAccumulatorTensorDeserialize StatsAccumulatorTensorFlush
    StatsAccumulatorTensorIsInitialized StatsAccumulatorTensorMakeSummary
    StatsAccumulatorTensorResourceHandleOp StatsAccumulatorTensorSerialize TraverseTreeV4
    TreeDeserialize TreeEnsembleDeserialize TreeEnsembleIsInitializedOp TreeEnsembleSerialize
    TreeEnsembleStampToken TreeEnsembleStats TreeEnsembleUsedHandlers TreeIsInitializedOp
    TreePredictionsV4 TreeSerialize TreeSize UpdateModelV4
    """,
)

once(
    "it is part of the input, before there are rows",
    """
    BigtableClient BigtableLookupDataset BigtablePrefixKeyDataset BigtableRangeKeyDataset
    BigtableSampleKeyPairsDataset BigtableSampleKeysDataset BigtableScanDataset BigtableTable
    DatasetToBigtable DecodeAudio DecodeAudioV2 DecodeLibsvm DecodeVideo EncodeAudio
    EncodeAudioV2 IgniteDataset KafkaDataset KinesisDataset ObtainNext ReinterpretStringToFloat
    SequenceFileDataset SkipGramGenerateCandidates
    """,
)

once(
    "it is about a device or a variable",
    "BytesInUse BytesLimit MaxBytesInUse ZeroInitializer ZeroVarInitializer",
)

once(
    "tf.contrib's kernels have no rule yet",
    """
    AdjustHsvInYiq BipartiteMatch BucketizeWithInputBoundaries FusedConv2DBiasActivation
    GatherTree HyperplaneLSHProbes ImageConnectedComponents ImageProjectiveTransform
    MaskedMatmul PeriodicResample PeriodicResampleOpGrad ReduceSliceMax ReduceSliceMin
    ReduceSliceProd ReduceSliceSum Resampler ResamplerGrad ScatterAddNdim
    SingleImageRandomDotStereograms SparseFeatureCross SparseFeatureCrossV2
    WALSComputePartialLhsAndRhs
    """,
)
