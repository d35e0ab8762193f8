"""Types of operations that run once on purpose: strings, and sparse and ragged rows."""

from __future__ import annotations

from replicate.layouts.rules.whole import once

once(
    "it makes or takes apart strings of any length",
    """
    DecodeProtoV2 DecodeRaw EditDistance EncodeProto Fingerprint ParseSingleExample
    ParseSingleSequenceExample ParseTensor SerializeTensor StringFormat StringNGrams
    UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnsortedSegmentJoin
    """,
)

once(
    "sparse rows have no layout yet",
    """
    AddManySparseToTensorsMap AddSparseToTensorsMap CSRSparseMatrixComponents
    CSRSparseMatrixToDense CSRSparseMatrixToSparseTensor DenseCountSparseOutput
    DenseToCSRSparseMatrix DenseToDenseSetOperation DenseToSparseSetOperation
    DeserializeManySparse DeserializeSparse SerializeManySparse SerializeSparse SetSize
    SparseAdd SparseAddGrad SparseBincount SparseCountSparseOutput
    SparseMatrixAdd SparseMatrixMatMul
    SparseMatrixMul SparseMatrixNNZ SparseMatrixOrderingAMD SparseMatrixSoftmax
    SparseMatrixSoftmaxGrad SparseMatrixSparseCholesky SparseMatrixSparseMatMul
    SparseMatrixTranspose SparseMatrixZeros SparseReduceMaxSparse
    SparseReduceSumSparse SparseSlice
    SparseSliceGrad SparseSparseMaximum SparseSparseMinimum SparseSplit
    SparseTensorDenseAdd SparseTensorToCSRSparseMatrix SparseToSparseSetOperation
    TakeManySparseFromTensorsMap
    """,
)

once(
    "ragged rows have no layout yet",
    """
    CompositeTensorVariantFromComponents CompositeTensorVariantToComponents RaggedBincount
    RaggedCountSparseOutput RaggedCross RaggedFillEmptyRows RaggedFillEmptyRowsGrad RaggedGather
    RaggedRange RaggedTensorFromVariant RaggedTensorToSparse RaggedTensorToTensor
    RaggedTensorToVariant RaggedTensorToVariantGradient
    """,
)
