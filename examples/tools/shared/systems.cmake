# The systems of include/sluice/systems that sluice-compare and sluice-run are compiled of: SYSTEM=header.
set(compared_systems
    OneAtATime=one_at_a_time
    VllmRecompute=vllm
    VllmSwap=vllm
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
    OrbitFlow=orbitflow)
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
