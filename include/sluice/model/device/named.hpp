// SPDX-License-Identifier: Apache-2.0
// The named devices: the accelerators of the papers, by function and by name.
#pragma once

#include "sluice/core/text.hpp"
#include "sluice/model/device/device.hpp"

#include <array>
#include <string>
#include <string_view>
#include <vector>

// Memory, bandwidth and peak are from the vendor's data sheets (named above each function; their "GB" of memory are
// GiB, of which driver and context take one or two per cent). Where a sheet gives the peak with sparsity, we use half
// of it.
//
// Links have the rate that pinned copies reach, not the bus's nominal rate:
// - PCIe 4.0 x16: 24 GB/s, measured on the A10 (Select-N, section 3). PCIe 5.0 x16: twice that.
// - A5000 and A6000: the OrbitFlow machines, measured with copies of one layer block each, so the rate includes the
//   cost of a segment (`Communication` in its profiles: 131,072 B of KV per token over A seconds).
// - A segment costs 5 us: SuperInfer reaches 10 GB/s with segments of 32 to 64 KiB, where the link alone would take
//   less than 0.3 us for each.
// - With both directions active each keeps 18.6 of 26.0 GB/s on PCIe 4.0 x16 (the sample output in the README of
//   nvbandwidth, tests host_to_device_memcpy_ce and its bidirectional pair); we use the same share for the other PCIe
//   links.
//
// Between peers, the rate that a ring of eight in one node reaches (nccl-tests' bus bandwidth of large messages), where
// a measurement is public:
// - NVLink of the H100 and H200 (450 GB/s each way, data sheet): 330 GB/s (NVIDIA/nccl issue 1221, 8 H100, NVLS off).
// - PCIe 4.0 x16: 20 GB/s (NVIDIA/nccl-tests issue 178, A100). PCIe 5.0 x16: 28 GB/s (NVIDIA/nccl issue 1639, 8 RTX
//   5090). The A5000 and A6000 have no measurement: we take the same 20/24 of their copies' rate.
// - 0.6 us per step over NVLink, 1.0 us over PCIe, and 6.6 us per collective: NCCL's tuner assumes these for a ring in
//   its low-latency protocol (src/graph/tuning.cc). Together with the rates above they favour messages of medium size,
//   for which the low-latency protocol has half the rate.
// The GH200s are single devices in their papers: no figure.
//
// Host memory is that of the paper's machine; otherwise 256 GB, eLLM's server (section 6.1).
namespace sluice {

namespace detail {

inline constexpr std::int64_t gib = std::int64_t{1} << 30;
inline constexpr BytesPerSecond pcie4_x16{24e9};
inline constexpr BytesPerSecond pcie5_x16{48e9};
inline constexpr double pcie_mix_loss = 1.0 - 18.6 / 26.0;
inline constexpr Seconds copy_segment_cost{5e-6};
inline constexpr Bytes usual_host_memory{256'000'000'000};
inline constexpr Seconds collective_launch{6.6e-6};
inline constexpr PeerLink nvlink4_peer{PeerPath::own, BytesPerSecond{330e9}, Seconds{0.6e-6}, collective_launch};
inline constexpr PeerLink pcie4_peer{PeerPath::host, BytesPerSecond{20e9}, Seconds{1e-6}, collective_launch};
inline constexpr PeerLink pcie5_peer{PeerPath::host, BytesPerSecond{28e9}, Seconds{1e-6}, collective_launch};

/// Over a host link of `rate`, with the latencies of PCIe 4.0 x16.
constexpr PeerLink pcie_peer(BytesPerSecond rate) {
  return {PeerPath::host, rate * (pcie4_peer.rate / pcie4_x16), pcie4_peer.step, collective_launch};
}

} // namespace detail

/// NVIDIA RTX A5000 data sheet: 24 GB, 768 GB/s, 222.2 TFLOPS tensor with sparsity. Achieved: 65 TFLOP/s in prefill;
/// link 7.6 GB/s (131,072 B / 1.72e-5 s) over PCIe 3.0 x16, 384 GB of host memory (OrbitFlow, section 4 and artifact).
inline Device a5000() {
  return {.name = "a5000",
          .memory = Bytes{24 * detail::gib},
          .memory_bandwidth = BytesPerSecond{768e9},
          .half_precision_peak = FlopsPerSecond{111.1e12},
          .compute_fraction = 65.0 / 111.1,
          .host_to_device = BytesPerSecond{7.6e9},
          .device_to_host = BytesPerSecond{7.6e9},
          .mix_loss = detail::pcie_mix_loss,
          .host_memory = Bytes{384'000'000'000},
          .peer = detail::pcie_peer(BytesPerSecond{7.6e9})};
}

/// NVIDIA RTX A6000 data sheet: 48 GB, 768 GB/s, 309.7 TFLOPS tensor with sparsity. Link 7.0 GB/s (131,072 B /
/// 1.87e-5 s), 256 GB of host memory (OrbitFlow, section 4 and artifact).
inline Device a6000() {
  return {.name = "a6000",
          .memory = Bytes{48 * detail::gib},
          .memory_bandwidth = BytesPerSecond{768e9},
          .half_precision_peak = FlopsPerSecond{154.8e12},
          .host_to_device = BytesPerSecond{7.0e9},
          .device_to_host = BytesPerSecond{7.0e9},
          .mix_loss = detail::pcie_mix_loss,
          .host_memory = Bytes{256'000'000'000},
          .peer = detail::pcie_peer(BytesPerSecond{7.0e9})};
}

/// NVIDIA A10 data sheet: 24 GB, 600 GB/s, 125 TFLOPS FP16 tensor; PCIe 4.0 x16 at 24 GB/s (Select-N, section 3).
inline Device a10() {
  return {.name = "a10",
          .memory = Bytes{24 * detail::gib},
          .memory_bandwidth = BytesPerSecond{600e9},
          .half_precision_peak = FlopsPerSecond{125e12},
          .host_to_device = detail::pcie4_x16,
          .device_to_host = detail::pcie4_x16,
          .mix_loss = detail::pcie_mix_loss,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = detail::usual_host_memory,
          .peer = detail::pcie4_peer};
}

/// NVIDIA T4 data sheet: 16 GB, 320 GB/s, 65 TFLOPS FP16 tensor; PCIe 3.0 x16, half of PCIe 4.0's 24 GB/s.
inline Device t4() {
  return {.name = "t4",
          .memory = Bytes{16 * detail::gib},
          .memory_bandwidth = BytesPerSecond{320e9},
          .half_precision_peak = FlopsPerSecond{65e12},
          .host_to_device = detail::pcie4_x16 * 0.5,
          .device_to_host = detail::pcie4_x16 * 0.5,
          .mix_loss = detail::pcie_mix_loss,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = detail::usual_host_memory,
          .peer = detail::pcie_peer(detail::pcie4_x16 * 0.5)};
}

/// NVIDIA A100 data sheet, 40 GB PCIe: 1,555 GB/s, 312 TFLOPS FP16 tensor; PCIe 4.0 x16.
inline Device a100_40() {
  return {.name = "a100-40",
          .memory = Bytes{40 * detail::gib},
          .memory_bandwidth = BytesPerSecond{1555e9},
          .half_precision_peak = FlopsPerSecond{312e12},
          .host_to_device = detail::pcie4_x16,
          .device_to_host = detail::pcie4_x16,
          .mix_loss = detail::pcie_mix_loss,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = detail::usual_host_memory,
          .peer = detail::pcie4_peer};
}

/// NVIDIA A100 data sheet, 80 GB PCIe: 1,935 GB/s, 312 TFLOPS FP16 tensor; PCIe 4.0 x16, eLLM's machine (section 6.1).
inline Device a100_80() {
  return {.name = "a100-80",
          .memory = Bytes{80 * detail::gib},
          .memory_bandwidth = BytesPerSecond{1935e9},
          .half_precision_peak = FlopsPerSecond{312e12},
          .host_to_device = detail::pcie4_x16,
          .device_to_host = detail::pcie4_x16,
          .mix_loss = detail::pcie_mix_loss,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = detail::usual_host_memory,
          .peer = detail::pcie4_peer};
}

/// NVIDIA H100 data sheet, SXM5: 80 GB, 3.35 TB/s, 1,979 TFLOPS FP16 tensor with sparsity; PCIe 5.0 x16.
inline Device h100() {
  return {.name = "h100",
          .memory = Bytes{80 * detail::gib},
          .memory_bandwidth = BytesPerSecond{3350e9},
          .half_precision_peak = FlopsPerSecond{989.5e12},
          .host_to_device = detail::pcie5_x16,
          .device_to_host = detail::pcie5_x16,
          .mix_loss = detail::pcie_mix_loss,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = detail::usual_host_memory,
          .peer = detail::nvlink4_peer};
}

/// NVIDIA H200 data sheet, SXM: 141 GB, 4.8 TB/s, 1,979 TFLOPS FP16 tensor with sparsity; PCIe 5.0 x16.
inline Device h200() {
  return {.name = "h200",
          .memory = Bytes{141 * detail::gib},
          .memory_bandwidth = BytesPerSecond{4800e9},
          .half_precision_peak = FlopsPerSecond{989.5e12},
          .host_to_device = detail::pcie5_x16,
          .device_to_host = detail::pcie5_x16,
          .mix_loss = detail::pcie_mix_loss,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = detail::usual_host_memory,
          .peer = detail::nvlink4_peer};
}

/// NVIDIA GH200 data sheet, 96 GB HBM3: 4 TB/s, 1,979 TFLOPS FP16 tensor with sparsity. MIRAGE's machine (sections 3.2
/// and 6): 427 GB/s from the host; 366 GB/s in total when reads and writes mix, because the host's own memory is the
/// bottleneck: hence one lane. 224 GB of LPDDR5X.
inline Device gh200_96() {
  return {.name = "gh200-96",
          .memory = Bytes{96 * detail::gib},
          .memory_bandwidth = BytesPerSecond{4000e9},
          .half_precision_peak = FlopsPerSecond{989.5e12},
          .host_to_device = BytesPerSecond{427e9},
          .device_to_host = BytesPerSecond{427e9},
          .lanes = Lanes::shared,
          .mix_loss = 1.0 - 366.0 / 427.0,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = Bytes{224'000'000'000}};
}

/// NVIDIA GH200 data sheet, 144 GB HBM3e: 4.9 TB/s, 1,979 TFLOPS FP16 tensor with sparsity, 480 GB of LPDDR5X.
/// SuperInfer's machine: 239 to 270 GB/s one way (we use the middle), 181 + 179 both ways at once (their mean is the
/// rate that remains under a mix). Every segment is a copy, as in the vLLM that SuperInfer starts from and compares
/// with: 10 GB/s with one segment per layer of a block. SuperInfer's own batched launches reach the rates above with
/// any segments; here that requires a block-first layout (`AllLayers`).
inline Device gh200_144() {
  return {.name = "gh200-144",
          .memory = Bytes{144 * detail::gib},
          .memory_bandwidth = BytesPerSecond{4900e9},
          .half_precision_peak = FlopsPerSecond{989.5e12},
          .host_to_device = BytesPerSecond{254.5e9},
          .device_to_host = BytesPerSecond{254.5e9},
          .lanes = Lanes::each_way,
          .mix_loss = 1.0 - 180.0 / 254.5,
          .segment_cost = detail::copy_segment_cost,
          .copies = Copies::each_segment,
          .host_memory = Bytes{480'000'000'000}};
}

/// NVIDIA Ada architecture white paper, appendix A, GeForce RTX 4090: 24 GB, 1,008 GB/s, 165.2 TFLOPS FP16 tensor with
/// FP32 accumulation (330.3 with FP16 accumulation, which serving does not use); PCIe 4.0 x16.
inline Device rtx_4090() {
  return {.name = "rtx-4090",
          .memory = Bytes{24 * detail::gib},
          .memory_bandwidth = BytesPerSecond{1008e9},
          .half_precision_peak = FlopsPerSecond{165.2e12},
          .host_to_device = detail::pcie4_x16,
          .device_to_host = detail::pcie4_x16,
          .mix_loss = detail::pcie_mix_loss,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = detail::usual_host_memory,
          .peer = detail::pcie4_peer};
}

/// NVIDIA RTX PRO 6000 Blackwell Workstation Edition: 96 GB, 1,792 GB/s, 4,030 TOPS FP4 with sparsity, of which an
/// eighth is dense FP16 with FP32 accumulation (503.8 TFLOPS, RTX Blackwell PRO white paper); PCIe 5.0 x16.
inline Device rtx_pro_6000() {
  return {.name = "rtx-pro-6000",
          .memory = Bytes{96 * detail::gib},
          .memory_bandwidth = BytesPerSecond{1792e9},
          .half_precision_peak = FlopsPerSecond{503.8e12},
          .host_to_device = detail::pcie5_x16,
          .device_to_host = detail::pcie5_x16,
          .mix_loss = detail::pcie_mix_loss,
          .segment_cost = detail::copy_segment_cost,
          .host_memory = detail::usual_host_memory,
          .peer = detail::pcie5_peer};
}

/// A name for `--device`, its device, and where the device's figures come from.
struct NamedDevice {
  std::string_view name;
  Device (*device)();
  std::string_view source;
};

inline constexpr std::array<NamedDevice, 12> named_devices{{
    {"a5000", a5000,
     "data sheet; 65 TFLOP/s in prefill, the link with copies of one layer block and the host: OrbitFlow, section 4 "
     "and artifact"},
    {"a6000", a6000, "data sheet; link and host: OrbitFlow, section 4 and artifact"},
    {"a10", a10, "data sheet; link: Select-N, section 3"},
    {"t4", t4, "data sheet; link: half of PCIe 4.0's"},
    {"a100-40", a100_40, "data sheet; link as the A10's, PCIe 4.0 x16"},
    {"a100-80", a100_80, "data sheet; link as the A10's; eLLM's machine (section 6.1)"},
    {"h100", h100, "data sheet; link: twice PCIe 4.0's; peers: NVIDIA/nccl issue 1221"},
    {"h200", h200, "data sheet; link and peers as the H100's"},
    {"gh200-96", gh200_96, "data sheet; link: MIRAGE, sections 3.2 and 6"},
    {"gh200-144", gh200_144, "data sheet; link: SuperInfer, the middle of 239 and 270 GB/s"},
    {"rtx-4090", rtx_4090, "Ada white paper, appendix A; link as the A10's"},
    {"rtx-pro-6000", rtx_pro_6000,
     "RTX Blackwell PRO white paper; link: twice PCIe 4.0's; peers: NVIDIA/nccl issue 1639"},
}};

/// "a5000, a6000, …": for help texts and errors.
inline std::string device_names() {
  std::string names;
  for (const NamedDevice& device : named_devices) {
    if (!names.empty()) names += ", ";
    names += device.name;
  }
  return names;
}

/// The named device, or an error that lists the names.
inline Expected<Device> find_device(std::string_view name) {
  for (const NamedDevice& device : named_devices) {
    if (device.name == name) return device.device();
  }
  std::vector<std::string_view> names;
  for (const NamedDevice& device : named_devices) names.push_back(device.name);
  return Error{ErrorCode::not_found, "device", "there is no device '" + excerpt(name) + "'" + did_you_mean(name, names),
               "one of " + device_names() + ", or a JSON file"};
}

} // namespace sluice
