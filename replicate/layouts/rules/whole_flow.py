"""Types of operations that run once on purpose: control flow, functions, and lists of tensors."""

from __future__ import annotations

from replicate.layouts.rules.whole import once

once(
    "loops and branches of graphs have rules of their own",
    """
    Abort ControlTrigger Enter Exit LoopCond Merge NextIteration NoOp RefEnter RefExit RefMerge
    RefNextIteration RefSelect RefSwitch Switch
    """,
)

once(
    "where what a function does can run in towers, it is part of the graph",
    """
    BatchFunction Case DeviceIndex FakeParam For If MapDefun PartitionedCall RemoteCall
    StatefulPartitionedCall StatelessCase StatelessIf StatelessWhile SymbolicGradient ToBool
    While
    """,
)

once("what Python does is not known", "EagerPyFunc PyFunc PyFuncStateless")

once(
    "it is for what the steps of a loop leave to others",
    """
    EmptyTensorList EmptyTensorMap Stack StackClose StackCloseV2 StackPop StackPopV2 StackPush
    StackPushV2 StackV2 TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3
    TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3 TensorArrayGather
    TensorArrayGatherV2 TensorArrayGatherV3 TensorArrayGrad TensorArrayGradV2 TensorArrayGradV3
    TensorArrayGradWithShape TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayReadV3
    TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySize
    TensorArraySizeV2 TensorArraySizeV3 TensorArraySplit TensorArraySplitV2 TensorArraySplitV3
    TensorArrayUnpack TensorArrayV2 TensorArrayV3 TensorArrayWrite TensorArrayWriteV2
    TensorArrayWriteV3 TensorListConcat TensorListConcatLists TensorListConcatV2
    TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem
    TensorListLength TensorListPopBack TensorListPushBack TensorListPushBackBatch
    TensorListReserve TensorListResize TensorListScatter TensorListScatterIntoExistingList
    TensorListScatterV2 TensorListSetItem TensorListSplit TensorListStack TensorMapErase
    TensorMapHasKey TensorMapInsert TensorMapLookup TensorMapSize TensorMapStackKeys
    """,
)
