"""Types of operations that run once on purpose, and why: the end of "It runs once, since ...".

A `*` stands for any letters. A name without one takes precedence over patterns, and the first
pattern over others.
"""

from __future__ import annotations

from replicate.layouts.rule import whole_on_purpose

_RUN_ONCE = {
    # Values and sizes.
    "it has no inputs with rows": """
        Const Empty HostConst IsTensorFloat32Enabled Placeholder PlaceholderV2
    """,
    "it may be fed with a whole value": "PlaceholderWithDefault",
    "it computes with sizes or axes of the whole batch": """
        BroadcastArgs BroadcastGradientArgs ConcatOffset DataFormatDimMap DataFormatVecPermute
        InvertPermutation LinSpace Rank Shape ShapeN Size
    """,
    "the number of its results depends on the data": """
        ComputeAccidentalHits ListDiff Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2
    """,
    "it changes entries of a whole tensor, at any indices": "TensorStridedSliceUpdate",
    "it also returns which of all rows it has added up": """
        SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2
    """,
    "an axis of its input becomes two of its result, or the reverse": "Diag DiagPart",
    "it draws random numbers for the whole batch": """
        KMC2ChainInitialization KmeansPlusPlusInitialization ParameterizedTruncatedNormal RandomCrop
        SobolSample
    """,
    "it is rare in models, and no rule was written": "ApproxTopK IsotonicRegression",
    "it makes or parses strings of any length": """
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
    "it processes the boxes of one image": "NonMaxSuppression* *SampleDistortedBoundingBox*",
    # Random numbers.
    "numbers that follow from a seed must be those of one device": """
        NonDeterministicInts RandomIndexShuffle Stateless* StochasticCastToInt
    """,
    "the generator's state is a variable, which is updated once": "Rng* Stateful*",
    "one order is drawn for all rows": "RandomShuffle",
    "one sample of classes is drawn for all rows": "*CandidateSampler",
    "it may fill the space around images with random numbers": "ExtractGlimpse*",
    "it draws the regions that it pools, the same for all rows": """
        FractionalAvgPool FractionalMaxPool
    """,
    # Exceptions in families that have rules.
    "an attribute fixes the number of its rows, which is that of the whole batch": "ParallelConcat",
    "labels or decoded sequences are sparse, and index rows of the whole batch": "CTC*",
    "it assigns to a variable, which is done once": "*StridedSliceAssign",
    "it has no kernel on CPUs with which a rule could be tested": """
        *FFTND BatchFFT* BatchIFFT* Conv2DBackprop*V2 MaxPoolGradGradWithArgmax
    """,
    # Control flow, functions and state.
    "loops and branches of graphs have rules of their own": """
        Abort ControlTrigger Enter Exit LoopCond Merge NextIteration NoOp RefEnter RefExit RefMerge
        RefNextIteration RefSelect RefSwitch Switch
    """,
    "arrays and lists of loops have rules of their own": """
        EmptyTensor* Stack* TensorArray* TensorList* TensorMap*
    """,
    "a function that can run in towers has been inlined into the graph": """
        BatchFunction Case DeviceIndex FakeParam For If MapDefun PartitionedCall RemoteCall
        StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile SymbolicGradient ToBool
        While
    """,
    "the Python code that it calls is not known": "*PyFunc PyFuncStateless",
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
    # Printing, writing and reading.
    "it prints or checks something, once": """
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
    "it stores batches until they are needed": """
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
    "it communicates among devices": """
        AllToAll Collective* CopyToMesh* DTensorAll* DTensorRe* Nccl* Recv Relayout* Send SyncDevice
    """,
    "it is about a device or a variable": "*Bytes* ZeroInitializer ZeroVarInitializer",
    "only GPUs run it, where no rule was tested": "Cudnn* GenerateBoundingBoxProposals",
    "only XLA runs it": "SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2",
    "no supported TensorFlow runs it": """
        AdjustContrast BatchCholesky* BatchMatrix* BatchNormWith* BatchSelfAdjointEig* BatchSvd
        Conv3DBackpropFilter Conv3DBackpropInput LookupTableFind MatrixExponential RandomPoisson
        Reverse SelfAdjointEig TileGrad TopK
    """,
    # Operations of graphs that are not trained.
    "only the runtime makes it": "_*",
    "quantized numbers are for inference, and most have one range": """
        Dequantize QuantizeAndDequantize QuantizeDownAndShrinkRange QuantizeV2 Quantized*
        Requantiz* Uniform*uantize*
    """,
    "it occurs in graphs that are frozen for inference": """
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

for _reason, _types in _RUN_ONCE.items():
    whole_on_purpose(_reason, *_types.split())
