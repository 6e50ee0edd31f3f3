# The systems of include/sluice/systems that sluice-compare and sluice-run are compiled of, in the order of their tables:
# SYSTEM=header. SYSTEM:OTHER is a row of sluice-compare alone: OTHER's engine, on the terms of row_SYSTEM below. This is the one place
# that a new system is added to; what else it needs (its line in system_texts.hpp, its trials) a build or a test asks for by name.
set(compared_systems
    OneAtATime=one_at_a_time
    VllmRecompute=vllm
    VllmSwap=vllm
    SwappedFirst:VllmSwap
    WaitingFirst=static_offloading
    SjfOracle=by_length
    LengthRanked=by_length
    FutureMemory=future_memory
    SuperInfer=superinfer
    DeepSpeedInference=deepspeed_inference
    FlexGen=flexgen
    FlexGenPlus=flexgen
    SloAware=slo_aware
    DynamicHeuristic=dynamic_heuristic
    VllmRecomputeSized=ellm
    VllmSwapSized=ellm
    HCache=hcache
    Ellm=ellm
    DeepSpeedWeights=streamed_weights
    FlexGenWeights=streamed_weights
    SelectN=streamed_weights
    Pie=pie
    Mirage=streamed_weights
    MirageOneSlot=streamed_weights
    MirageNoReversion=streamed_weights
    OrbitFlowUniform=orbitflow
    OrbitFlowRequestWise=orbitflow
    OrbitFlowPause:OrbitFlow
    OrbitFlow=orbitflow
    OrbitFlowPool:OrbitFlow)
# Of these, the systems that also serve several tenants in a node, and their coordinators.
set(tenants_OneAtATime Uncoordinated)
set(tenants_VllmRecompute Uncoordinated)
set(tenants_VllmSwap Uncoordinated)
set(tenants_DeepSpeedWeights Uncoordinated)
set(tenants_FlexGenWeights Uncoordinated)
set(tenants_SelectN BusCoordinator)
set(tenants_Mirage RemapController)
# The same of compare/variants.hpp: systems with one part replaced.
set(compared_variants OrbitFlowSrtf OrbitFlowPauseShortest OrbitFlowPauseRandom OrbitFlowEven)
# What a row says of its system besides (compare/run.hpp, System), in the order of the members.
set(row_OneAtATime ".control = true")
set(row_OrbitFlowPause ".deposit_never = true")
set(row_OrbitFlowPool ".rule = \"deadline-pool\"")
set(row_DeepSpeedWeights ".streams_weights = true")
set(row_FlexGenWeights ".streams_weights = true")
set(row_SelectN ".streams_weights = true")
