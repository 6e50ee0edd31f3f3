# Every kernel that nvcc compiles: a line for each configuration, which names every member of the family's Config, in order.
# `find_kernel` (kernels/lookup.hpp) finds these; for any other it returns the line that must be added here.

foreach(element IN ITEMS f32 f16 bf16)
  set(of ".element = ElementType::${element}")

  # Kernels on rows: any number of rows and features.
  sluice_kernel(rows/embed.hpp Embed "${of}")
  sluice_kernel(rows/norm.hpp Norm "${of}, .kind = NormKind::rms")
  sluice_kernel(rows/norm.hpp Norm "${of}, .kind = NormKind::layer")
  sluice_kernel(rows/activation.hpp Activation "${of}, .kind = ActivationKind::silu, .gated = true")
  sluice_kernel(rows/activation.hpp Activation "${of}, .kind = ActivationKind::relu, .gated = false")
  sluice_kernel(rows/activation.hpp Activation "${of}, .kind = ActivationKind::gelu, .gated = false")
  sluice_kernel(rows/activation.hpp Activation "${of}, .kind = ActivationKind::gelu_tanh, .gated = false")
  sluice_kernel(sample/sample.hpp Sample "${of}")

  # Experts: routing of rows to experts, gathering and scattering.
  sluice_kernel(experts/route.hpp Route "${of}")
  sluice_kernel(experts/move_rows.hpp GatherRows "${of}")
  sluice_kernel(experts/move_rows.hpp ScatterRows "${of}")

  # Attention: one warp for decoding, four for prompts. Query groups, block sizes and lengths are parameters at run time.
  # The project's own small models have heads of 32.
  foreach(head_dim IN ITEMS 32 64 80 96 128 192 256)
    set(of_heads "${of}, .head_dim = ${head_dim}")
    sluice_kernel(rows/rope_and_store.hpp RopeAndStore "${of_heads}")
    sluice_kernel(attention/paged_attention.hpp PagedAttention "${of_heads}, .warps = 1, .stages = 2")
    sluice_kernel(attention/paged_attention.hpp PagedAttention "${of_heads}, .warps = 4, .stages = 2")
    sluice_kernel(attention/merge_segments.hpp MergeSegments "${of_heads}")
  endforeach()

  # Products, by rows per tile: few for decoding, many for prompts.
  foreach(tile_rows IN ITEMS 16 64 128)
    sluice_kernel(products/tile_product.hpp TileProduct "${of}, .tile_rows = ${tile_rows}")
    sluice_kernel(products/grouped_product.hpp GroupedProduct "${of}, .tile_rows = ${tile_rows}")
  endforeach()
endforeach()

# Kernels on bytes and integers, without an element.
sluice_kernel(experts/place.hpp Place "")
sluice_kernel(copy/copy_segments.hpp CopySegments "")
