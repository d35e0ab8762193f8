"""Types of operations that run once on purpose, and why: the end of "It runs once, since ...".

A `*` stands for any letters. A name without one takes precedence over patterns, and the first
pattern over others.
"""

from __future__ import annotations

from replicate.layouts.rule import whole_on_purpose

_ONCE = {
    # Values and sizes.
    "it has no input, or none that rows enter": """
        Const Empty HostConst IsTensorFloat32Enabled Placeholder PlaceholderV2
    """,
    "it may be fed, by a whole value": "PlaceholderWithDefault",
    "it computes with sizes or axes of the whole": """
        BroadcastArgs BroadcastGradientArgs ConcatOffset DataFormatDimMap DataFormatVecPermute
        InvertPermutation LinSpace Rank Shape ShapeN Size
    """,
    "how many results there are depends on the data": """
        ComputeAccidentalHits ListDiff Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2
    """,
    "it changes entries of a whole, wherever indices say": "TensorStridedSliceUpdate",
    "it also says which rows it has added up, of all": """
        SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2
    """,
    "an axis of its input has two in its result, or the reverse": "Diag DiagPart",
    "it draws random numbers of the whole": """
        KMC2ChainInitialization KmeansPlusPlusInitialization ParameterizedTruncatedNormal RandomCrop
        SobolSample
    """,
    "models have it rarely, and no rule was written": "ApproxTopK IsotonicRegression",
    "it makes or takes apart strings of any length": """
        DecodeProtoV2 DecodeRaw EditDistance EncodeProto Fingerprint ParseSingleExample
        ParseSingleSequenceExample ParseTensor SerializeTensor StringFormat StringNGrams
        UnicodeDecode* UnicodeEncode UnsortedSegmentJoin
    """,
    "no rule was written for its sparse rows": """
        *CSRSparse* *ManySparse* *SparseToTensorsMap *CountSparseOutput *ToDenseSetOperation
        *ToSparseSetOperation *erializeSparse SetSize SparseAdd SparseAddGrad SparseBincount
        SparseMatrix* SparseReduceMaxSparse SparseReduceSumSparse SparseSlice SparseSliceGrad
        SparseSparseM* SparseSplit SparseTensorDenseAdd
    """,
    "no rule was written for its ragged rows": "CompositeTensor* Ragged*",
    # Random numbers.
    "it takes the boxes of one image": "NonMaxSuppression* *SampleDistortedBoundingBox*",
    "what follows from a seed is what one device has": """
        NonDeterministicInts RandomIndexShuffle Stateless* StochasticCastToInt
    """,
    "the generator's state is a variable, and one device's": "Rng* Stateful*",
    "one order is drawn for all rows": "RandomShuffle",
    "one sample of classes is drawn for all rows": "*CandidateSampler",
    "around images, it draws random numbers": "ExtractGlimpse*",
    "it draws the regions that it pools, the same for all rows": """
        FractionalAvgPool FractionalMaxPool
    """,
    # Others of families that have rules.
    "an attribute says how many rows it makes: those of the whole": "ParallelConcat",
    "labels or decoded sequences are sparse, and name rows by their places in the batch": "CTC*",
    "it assigns to a variable, which is one device's": "*StridedSliceAssign",
    "it has no kernel on CPUs, by which a rule could be proven": """
        *FFTND BatchFFT* BatchIFFT* Conv2DBackprop*V2 MaxPoolGradGradWithArgmax
    """,
    # Control flow, functions and state.
    "loops and branches of graphs have rules of their own": """
        Abort ControlTrigger Enter Exit LoopCond Merge NextIteration NoOp RefEnter RefExit RefMerge
        RefNextIteration RefSelect RefSwitch Switch
    """,
    "it is for what the steps of a loop leave to others": """
        EmptyTensor* Stack* TensorArray* TensorList* TensorMap*
    """,
    "where what a function does can run in towers, it is part of the graph": """
        BatchFunction Case DeviceIndex FakeParam For If MapDefun PartitionedCall RemoteCall
        StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile SymbolicGradient ToBool
        While
    """,
    "what Python does is not known": "*PyFunc PyFuncStateless",
    "it is a variable, which all towers share": """
        DeepCopy DestroyResourceOp DestroyTemporaryVariable DisableCopyOnRead *ResourceHandle
        IsResourceHandleRefCounting IsVariableInitialized ReadVariable* RefIdentity
        TemporaryVariable Var*
    """,
    "it updates a variable, once, by a whole value": """
        Apply* ResourceApply* SparseApply* ResourceSparseApply* Assign* *CountUpTo Inplace*
        ResourceScatter* ScatterAdd ScatterDiv ScatterM* ScatterNdAdd ScatterNdM* ScatterNdSub
        ScatterNdUpdate ScatterSub ScatterUpdate
    """,
    "it is a table, which all towers share": """
        *HashTable* InitializeTable* LookupTableExport* LookupTableI* LookupTableRemove*
        LookupTableSize*
    """,
    "trees and linear models are trained as a whole": """
        *Boosted* Build*Splits *Fertile* Create*Variable *Tree* FeatureUsageCounts
        ProcessInputV4 *Quantiles *QuantileAccumulator* Quantile* *QuantileSummaries Sdca*
        StatsAccumulator* CreateStats* UpdateModelV4
    """,
    "it counts or locks for all towers": "*Accumulator* *Mutex*",
    "it keeps a value between runs of a session": "*Session*",
    "it writes or reads checkpoints": """
        DistributedSave GenerateVocabRemapping ImmutableConst LoadAndRemapMatrix MergeV2Checkpoints
        Restore* Save SaveSlices SaveV2 ShardedFile*
    """,
    # What says, writes or reads something.
    "it says or checks something, once": """
        Assert CheckPinned Copy CopyHost DebugGradientRef* DebugI* DebugN* DumpTensor GetDeadline
        Print* Timestamp
    """,
    "it writes a summary of the whole": """
        *Summary AudioSummaryV2 *SummaryWriter CreateSummary* ImportEvent TensorSummaryV2
    """,
    "it reads or writes a file": "FileSystemSetConfiguration MatchingFiles ReadFile WriteFile",
    "it calls another program": "*Rpc*",
    # The input.
    "it is part of an input pipeline, before there are rows": """
        *Dataset* *Iterator* *Seed* *MemoryCache *ThreadPool* AutoShard* CompressElement
        DummyIterationCounter ExperimentalStats* GetElementAtIndex GetOptions Optional*
        StatsAggregator* UncompressElement WrapDatasetVariant Bigtable* ObtainNext
        ReinterpretStringToFloat SkipGramGenerateCandidates
    """,
    "it keeps batches until others want them": """
        Barrier* Batch *Queue* MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage*
        OrderedMap* RecordInput Stage* Unbatch UnbatchGrad Unstage
    """,
    "it reads files and their records": """
        *Reader *ReaderV2 Reader* GcsConfigure* GenerateBigQueryReaderPartitions
    """,
    "it takes one record of the input, not a batch": """
        Audio* *codeAudio* DecodeBmp DecodeGif DecodeImage *Jpeg* DecodeJxl DecodeLibsvm *codePng
        DecodeVideo *codeWav DecodeWebP Mfcc NegTrain Skipgram WindowOp
    """,
    # Devices and their programs.
    "it reads or writes tables of a TPU's embeddings": """
        *TPUEmbedding* *Dedup* *Coo* *Minibatch* XlaSparse*
    """,
    "it is part of a program for TPUs": """
        TPU* Tpu* *TPU *TpuTaskId *TPUArray *TPUSystem CrossReplicaSum ComputeBatchSize GlobalIterId
        *nfeed* *utfeed* KthOrderStatistic MakeUnique Prelinearize* TopK*Unique
        UpdateTaskIdAndGlobalCoreArray WorkerHeartbeat
    """,
    "it is part of a program for XLA": "Xla*",
    "devices meet in it": """
        AllToAll Collective* CopyToMesh* DTensorAll* DTensorRe* Nccl* Recv Relayout* Send SyncDevice
    """,
    "it is about a device or a variable": "*Bytes* ZeroInitializer ZeroVarInitializer",
    "GPUs alone run it, and nothing was proven there": "Cudnn* GenerateBoundingBoxProposals",
    "XLA alone runs it": "SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2",
    "no TensorFlow of today runs it": """
        AdjustContrast BatchCholesky* BatchMatrix* BatchNormWith* BatchSelfAdjointEig* BatchSvd
        Conv3DBackpropFilter Conv3DBackpropInput LookupTableFind MatrixExponential RandomPoisson
        Reverse SelfAdjointEig TileGrad TopK
    """,
    # Graphs that are not for training.
    "the runtime makes it, and no graph that is built has it": "_*",
    "quantized numbers are for inference, and most have one range": """
        Dequantize QuantizeAndDequantize QuantizeDownAndShrinkRange QuantizeV2 Quantized*
        Requantiz* Uniform*uantize*
    """,
    "graphs that are frozen for inference have it": """
        CalibrationStatisticsSaver CompareAndBitpack CustomAggregator Fact FusedPadConv2D
        FusedResizeAndPadConv2D GuaranteeConst MlirPassthroughOp RemoteFusedGraphExecute
    """,
    "other runtimes run it": "*TRT* GetCalibrationDataOp Risc* TfLite*",
    "no rule was written for tf.contrib's kernel": """
        AdjustHsvInYiq BipartiteMatch BucketizeWithInputBoundaries FusedConv2DBiasActivation
        GatherTree HyperplaneLSHProbes Image*Components ImageProjectiveTransform MaskedMatmul
        ReduceSlice* *Resample* ScatterAddNdim SingleImageRandomDotStereograms SparseFeatureCross*
        WALSComputePartialLhsAndRhs
    """,
}

for _reason, _types in _ONCE.items():
    whole_on_purpose(_reason, *_types.split())
