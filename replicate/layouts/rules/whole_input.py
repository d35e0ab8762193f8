"""Types of operations that run once on purpose: the input, before a model has it."""

from __future__ import annotations

from replicate.layouts.rules.whole import once

once(
    "it is part of an input pipeline, before there are rows",
    """
    AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 AnonymousMemoryCache
    AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 AnonymousRandomSeedGenerator
    AnonymousSeedGenerator AssertCardinalityDataset AssertNextDataset AssertPrevDataset
    AutoShardDataset BatchDataset BatchDatasetV2 BytesProducedStatsDataset CSVDataset
    CSVDatasetV2 CacheDataset CacheDatasetV2 ChooseFastestBranchDataset ChooseFastestDataset
    CompressElement ConcatenateDataset DataServiceDataset DataServiceDatasetV2
    DataServiceDatasetV3 DataServiceDatasetV4 DatasetCardinality DatasetFingerprint
    DatasetFromGraph DatasetToGraph DatasetToGraphV2 DatasetToSingleElement DatasetToTFRecord
    DeleteIterator DeleteMemoryCache DeleteMultiDeviceIterator DeleteRandomSeedGenerator
    DeleteSeedGenerator DenseToSparseBatchDataset DeserializeIterator DirectedInterleaveDataset
    DummyIterationCounter DummyMemoryCache DummySeedGenerator ExperimentalAssertNextDataset
    ExperimentalAutoShardDataset ExperimentalBytesProducedStatsDataset ExperimentalCSVDataset
    ExperimentalChooseFastestDataset ExperimentalDatasetCardinality
    ExperimentalDatasetToTFRecord ExperimentalDenseToSparseBatchDataset
    ExperimentalDirectedInterleaveDataset ExperimentalGroupByReducerDataset
    ExperimentalGroupByWindowDataset ExperimentalIgnoreErrorsDataset
    ExperimentalIteratorGetDevice ExperimentalLMDBDataset ExperimentalLatencyStatsDataset
    ExperimentalMapAndBatchDataset ExperimentalMapDataset ExperimentalMatchingFilesDataset
    ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset
    ExperimentalParallelInterleaveDataset ExperimentalParseExampleDataset
    ExperimentalPrivateThreadPoolDataset ExperimentalRandomDataset ExperimentalRebatchDataset
    ExperimentalScanDataset ExperimentalSetStatsAggregatorDataset ExperimentalSleepDataset
    ExperimentalSlidingWindowDataset ExperimentalSqlDataset ExperimentalStatsAggregatorHandle
    ExperimentalStatsAggregatorSummary ExperimentalTakeWhileDataset
    ExperimentalThreadPoolDataset ExperimentalThreadPoolHandle ExperimentalUnbatchDataset
    ExperimentalUniqueDataset FilterByLastComponentDataset FilterDataset FinalizeDataset
    FixedLengthRecordDataset FixedLengthRecordDatasetV2 FlatMapDataset GeneratorDataset
    GetElementAtIndex GetOptions GlobalShuffleDataset GroupByReducerDataset GroupByWindowDataset
    IgnoreErrorsDataset IndexFlatMapDataset InitializeTableFromDataset InterleaveDataset
    Iterator IteratorFromStringHandle IteratorFromStringHandleV2 IteratorGetDevice
    IteratorGetModelProto IteratorGetNext IteratorGetNextAsOptional IteratorGetNextSync
    IteratorToStringHandle IteratorV2 LMDBDataset LatencyStatsDataset
    LegacyParallelInterleaveDatasetV2 ListDataset ListSnapshotChunksDataset LoadDataset
    MakeIterator MapAndBatchDataset MapDataset MatchingFilesDataset MaxIntraOpParallelismDataset
    ModelDataset MultiDeviceIterator MultiDeviceIteratorFromStringHandle
    MultiDeviceIteratorGetNextFromShard MultiDeviceIteratorInit
    MultiDeviceIteratorToStringHandle NonSerializableDataset OneShotIterator OptimizeDataset
    OptimizeDatasetV2 OptionalFromValue OptionalGetValue OptionalHasValue OptionalNone
    OptionsDataset PaddedBatchDataset PaddedBatchDatasetV2 ParallelBatchDataset
    ParallelFilterDataset ParallelInterleaveDataset ParallelInterleaveDatasetV2
    ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4 ParallelMapDataset
    ParallelMapDatasetV2 ParseExampleDataset ParseExampleDatasetV2 PrefetchDataset
    PrivateThreadPoolDataset RandomDataset RandomDatasetV2 RangeDataset RebatchDataset
    RebatchDatasetV2 ReduceDataset RegisterDataset RegisterDatasetV2 RepeatDataset
    RewriteDataset SamplingDataset SaveDataset SaveDatasetV2 ScanDataset SerializeIterator
    SetStatsAggregatorDataset ShardDataset ShuffleAndRepeatDataset ShuffleAndRepeatDatasetV2
    ShuffleDataset ShuffleDatasetV2 ShuffleDatasetV3 SkipDataset SleepDataset
    SlidingWindowDataset SnapshotChunkDataset SnapshotDataset SnapshotDatasetReader
    SnapshotDatasetV2 SnapshotNestedDatasetReader SparseTensorSliceDataset SqlDataset
    StatsAggregatorHandle StatsAggregatorHandleV2 StatsAggregatorSetSummaryWriter
    StatsAggregatorSummary TFRecordDataset TFRecordDatasetV2 TakeDataset TakeWhileDataset
    TensorDataset TensorSliceDataset TextLineDataset ThreadPoolDataset ThreadPoolHandle
    UnbatchDataset UncompressElement UniqueDataset UnwrapDatasetVariant WeightedFlatMapDataset
    WindowDataset WrapDatasetVariant ZipDataset
    """,
)

once(
    "it keeps batches until others want them",
    """
    Barrier BarrierClose BarrierIncompleteSize BarrierInsertMany BarrierReadySize
    BarrierTakeMany Batch FIFOQueue FIFOQueueV2 FakeQueue MapClear MapIncompleteSize MapPeek
    MapSize MapStage MapUnstage MapUnstageNoKey OrderedMapClear OrderedMapIncompleteSize
    OrderedMapPeek OrderedMapSize OrderedMapStage OrderedMapUnstage OrderedMapUnstageNoKey
    PaddingFIFOQueue PaddingFIFOQueueV2 PriorityQueue PriorityQueueV2 QueueClose QueueCloseV2
    QueueDequeue QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2
    QueueDequeueV2 QueueEnqueue QueueEnqueueMany QueueEnqueueManyV2 QueueEnqueueV2 QueueIsClosed
    QueueIsClosedV2 QueueSize QueueSizeV2 RandomShuffleQueue RandomShuffleQueueV2 RecordInput
    Stage StageClear StagePeek StageSize Unbatch UnbatchGrad Unstage
    """,
)

once(
    "it reads files and their records",
    """
    BigQueryReader FixedLengthRecordReader FixedLengthRecordReaderV2 GcsConfigureBlockCache
    GcsConfigureCredentials GenerateBigQueryReaderPartitions IdentityReader IdentityReaderV2
    LMDBReader ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted
    ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2
    ReaderReset ReaderResetV2 ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState
    ReaderSerializeStateV2 TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2
    WholeFileReader WholeFileReaderV2
    """,
)

once(
    "it takes one record of the input, not a batch",
    """
    AudioMicrofrontend AudioSpectrogram DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage
    DecodeJpeg DecodeJxl DecodePng DecodeWav DecodeWebP EncodeJpeg EncodeJpegVariableQuality
    EncodePng EncodeWav ExtractJpegShape Mfcc NegTrain Skipgram WindowOp
    """,
)
