"""Types of operations that run once on purpose: kernels that are for other graphs."""

from __future__ import annotations

from replicate.layouts.rules.whole import once

once(
    "TensorFlow's own tests have it",
    """
    A Attr AttrBool AttrBoolList AttrDefault AttrEmptyListDefault AttrEnum AttrEnumList
    AttrFloat AttrListDefault AttrListMin AttrListTypeDefault AttrMin AttrPartialShape
    AttrPartialShapeList AttrShape AttrShapeList AttrTypeDefault B Binary ComplexStruct
    ConstructionFails CopyOp DefaultAttrs DevicePlacementOp DtypeWithDefaultOp FiveFloatOutputs
    FloatInput FloatOutput FloatOutputStringOutput Foo1 Foo2 Foo3 FuncAttr FuncListAttr
    GraphDefVersion InPolymorphicTwice Int64Output IntAttr IntInput IntInputFloatInput
    IntInputIntOutput IntOutput IntOutputFloatOutput KernelLabel KernelLabelRequired ListInput
    ListOutput MixedStruct NInPolymorphicTwice NInTwice NInTwoTypeVariables NIntsIn NIntsOut
    NIntsOutDefault NPolymorphicIn NPolymorphicOut NPolymorphicOutDefault NPolymorphicRestrictIn
    NPolymorphicRestrictOut Namespace>TestStringOutput None Old OpWithDefaultAttr
    OpWithFutureDefaultAttr OutT OutTypeList OutTypeListRestrict Polymorphic
    PolymorphicDefaultOut PolymorphicOut RefIn RefInputFloatInput RefInputFloatInputIntOutput
    RefInputIntInput RefOut RefOutput RefOutputFloatOutput RequiresOlderGraphVersion
    ReservedAttr ReservedInput ResourceCreateOp ResourceInitializedOp ResourceUsingOp Restrict
    Simple SimpleStruct SleepIdentityOp SleepOp StringListAttr StubResourceHandleOp TestAttr
    TestStringOutput TwoFloatInputs TwoFloatInputsFloatOutput TwoFloatInputsIntOutput
    TwoFloatOutputs TwoIntInputs TwoIntOutputs TwoRefsIn TypeList TypeListRestrict TypeListTwice
    Unary
    """,
)

once(
    "TensorFlow makes it of other operations when the graph runs",
    """
    _MklAdd _MklAddN _MklAddV2 _MklAvgPool _MklAvgPool3D _MklAvgPool3DGrad _MklAvgPoolGrad
    _MklBatchMatMul _MklBatchMatMulV2 _MklConcat _MklConcatV2 _MklConjugateTranspose _MklConv2D
    _MklConv2DBackpropFilter _MklConv2DBackpropFilterWithBias _MklConv2DBackpropInput
    _MklConv2DWithBias _MklConv3D _MklConv3DBackpropFilterV2 _MklConv3DBackpropInputV2
    _MklDepthwiseConv2dNative _MklDepthwiseConv2dNativeBackpropFilter
    _MklDepthwiseConv2dNativeBackpropInput _MklDequantize _MklEinsum _MklElu _MklEluGrad
    _MklFusedBatchMatMulV2 _MklFusedBatchNorm _MklFusedBatchNormEx _MklFusedBatchNormGrad
    _MklFusedBatchNormGradV2 _MklFusedBatchNormGradV3 _MklFusedBatchNormV2 _MklFusedBatchNormV3
    _MklFusedConv2D _MklFusedDepthwiseConv2dNative _MklFusedInstanceNorm _MklFusedMatMul
    _MklFusedMish _MklIdentity _MklInputConversion _MklLRN _MklLRNGrad _MklLayerNorm
    _MklLeakyRelu _MklLeakyReluGrad _MklMatMul _MklMaxPool _MklMaxPool3D _MklMaxPool3DGrad
    _MklMaxPoolGrad _MklMaximum _MklMul _MklNativeAvgPool _MklNativeAvgPool3D
    _MklNativeAvgPool3DGrad _MklNativeAvgPoolGrad _MklNativeConv2D
    _MklNativeConv2DBackpropFilter _MklNativeConv2DBackpropFilterWithBias
    _MklNativeConv2DBackpropInput _MklNativeConv2DWithBias _MklNativeConv3D
    _MklNativeConv3DBackpropFilterV2 _MklNativeConv3DBackpropInputV2
    _MklNativeDepthwiseConv2dNative _MklNativeDepthwiseConv2dNativeBackpropFilter
    _MklNativeDepthwiseConv2dNativeBackpropInput _MklNativeFusedBatchNorm
    _MklNativeFusedBatchNormEx _MklNativeFusedBatchNormGrad _MklNativeFusedBatchNormGradV2
    _MklNativeFusedBatchNormGradV3 _MklNativeFusedBatchNormV2 _MklNativeFusedBatchNormV3
    _MklNativeFusedConv2D _MklNativeFusedConv3D _MklNativeFusedDepthwiseConv2dNative
    _MklNativeFusedMatMul _MklNativeMaxPool _MklNativeMaxPool3D _MklNativeMaxPool3DGrad
    _MklNativeMaxPoolGrad _MklNativePadWithConv2D _MklNativePadWithFusedConv2D
    _MklNativeSparseMatrixMatMul _MklPadWithConv2D _MklPadWithFusedConv2D _MklQuantizeV2
    _MklQuantizedAvgPool _MklQuantizedConcatV2 _MklQuantizedConv2D _MklQuantizedConv2DAndRelu
    _MklQuantizedConv2DAndReluAndRequantize _MklQuantizedConv2DAndRequantize
    _MklQuantizedConv2DPerChannel _MklQuantizedConv2DWithBias _MklQuantizedConv2DWithBiasAndRelu
    _MklQuantizedConv2DWithBiasAndReluAndRequantize _MklQuantizedConv2DWithBiasAndRequantize
    _MklQuantizedConv2DWithBiasSignedSumAndReluAndRequantize
    _MklQuantizedConv2DWithBiasSumAndRelu _MklQuantizedConv2DWithBiasSumAndReluAndRequantize
    _MklQuantizedDepthwiseConv2D _MklQuantizedDepthwiseConv2DWithBias
    _MklQuantizedDepthwiseConv2DWithBiasAndRelu
    _MklQuantizedDepthwiseConv2DWithBiasAndReluAndRequantize _MklQuantizedMatMulWithBias
    _MklQuantizedMatMulWithBiasAndDequantize _MklQuantizedMatMulWithBiasAndRelu
    _MklQuantizedMatMulWithBiasAndReluAndRequantize _MklQuantizedMatMulWithBiasAndRequantize
    _MklQuantizedMaxPool _MklRelu _MklRelu6 _MklRelu6Grad _MklReluGrad _MklReshape _MklSlice
    _MklSoftmax _MklSquaredDifference _MklSub _MklSwish _MklTanh _MklTanhGrad _MklToTf
    _MklTranspose __MklDummyConv2DBackpropFilterWithBias __MklDummyConv2DWithBias
    __MklDummyPadWithConv2D __MklDummyPadWithFusedConv2D
    """,
)

once(
    "the runtime makes it, and no graph that is built has it",
    """
    _Arg _ArrayToList _ConfigureDistributedTPU _CopyFromGpuToHost _CopyFromHostToGpu _DeviceArg
    _DeviceRetval _DisconnectHostFromDistributedTPUSystem _EagerConst _FusedBatchNormEx
    _FusedBatchNormGradEx _FusedConv2D _FusedConv3D _FusedDepthwiseConv2dNative _FusedMatMul
    _FusedQuantizedConv2D _FusedQuantizedDepthwiseConv2D _HostCast _HostRecv _HostSend _If
    _InitializeHostForDistributedTPU _ListToArray _NcclBroadcastRecv _NcclBroadcastSend
    _NcclReduceRecv _NcclReduceSend _ParallelConcatStart _ParallelConcatUpdate _QuantizedMatMul
    _QuantizedMaxPool3D _ReadVariablesOp _Recv _Retval _ScopedAllocator _ScopedAllocatorConcat
    _ScopedAllocatorSplit _Send _SetGlobalTPUArray _ShutdownDistributedTPU _SwitchN
    _TPUCompileMlir _TPUReplicate _TensorToHashBucketFast _UnaryOpsComposition _VarHandlesOp
    _WaitForDistributedTPU _While _XlaAotOnlyVarHandleOp _XlaCompile
    _XlaCompileMlirPlaceholderProgramKey _XlaHostComputeMlir _XlaMerge _XlaRecvAtHost
    _XlaRecvAtHostV2 _XlaRun _XlaSendFromHost _XlaSendFromHostV2
    """,
)

once(
    "quantized numbers are for inference, and most have one range",
    """
    Dequantize QuantizeAndDequantize QuantizeDownAndShrinkRange QuantizeV2 QuantizedAdd
    QuantizedAvgPool QuantizedBatchNormWithGlobalNormalization QuantizedBiasAdd QuantizedConcat
    QuantizedConcatV2 QuantizedConv2D QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize
    QuantizedConv2DAndRequantize QuantizedConv2DPerChannel QuantizedConv2DWithBias
    QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize
    QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize
    QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize
    QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias
    QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize
    QuantizedInstanceNorm QuantizedMatMul QuantizedMatMulWithBias
    QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu
    QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize
    QuantizedMaxPool QuantizedMul QuantizedRelu QuantizedRelu6 QuantizedReluX QuantizedReshape
    QuantizedResizeBilinear RequantizationRange RequantizationRangePerChannel Requantize
    RequantizePerChannel UniformDequantize UniformQuantize UniformQuantizedAdd
    UniformQuantizedClipByValue UniformQuantizedConvolution UniformQuantizedConvolutionHybrid
    UniformQuantizedDot UniformQuantizedDotHybrid UniformRequantize
    """,
)

once(
    "graphs that are frozen for inference have it",
    """
    CalibrationStatisticsSaver CompareAndBitpack CustomAggregator Fact FusedPadConv2D
    FusedResizeAndPadConv2D GuaranteeConst MlirPassthroughOp RemoteFusedGraphExecute
    """,
)

once(
    "other runtimes run it",
    """
    CreateTRTResourceHandle GetCalibrationDataOp InitializeTRTResource RiscAbs RiscAdd
    RiscBinaryArithmetic RiscBinaryComparison RiscBitcast RiscBroadcast RiscCast RiscCeil
    RiscCholesky RiscConcat RiscCondition RiscConv RiscCos RiscDiv RiscDot RiscExp RiscFft
    RiscFloor RiscGather RiscImag RiscIsFinite RiscLog RiscLogicalAnd RiscLogicalNot
    RiscLogicalOr RiscMax RiscMin RiscMul RiscNeg RiscPad RiscPool RiscPow RiscRandomUniform
    RiscReal RiscReduce RiscRem RiscReshape RiscReverse RiscScatter RiscShape RiscSign RiscSlice
    RiscSort RiscSqueeze RiscSub RiscTranspose RiscTriangularSolve RiscUnary RiscWhile
    SerializeTRTResource TRTEngineOp TfLiteSubgraphExecute
    """,
)

once(
    "GPUs alone run it, and nothing was proven there",
    """
    CudnnRNN CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3 CudnnRNNCanonicalToParams
    CudnnRNNCanonicalToParamsV2 CudnnRNNParamsSize CudnnRNNParamsToCanonical
    CudnnRNNParamsToCanonicalV2 CudnnRNNV2 CudnnRNNV3 GenerateBoundingBoxProposals
    """,
)

once("no TensorFlow of today runs it", "LookupTableFind RandomPoisson Reverse TileGrad TopK")
