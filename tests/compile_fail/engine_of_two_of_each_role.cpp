// SPDX-License-Identifier: Apache-2.0
// Every role has its message for a second policy; only Observer may be played by several.
// sentences: 13
// says: two Admission policies in one engine: keep one of them
// says: two Cost models in one engine: keep one .the world's belongs to the backend: BasicSimulated<World>
// says: two Transfer rules in one engine: keep one of them
// says: two Retention policies in one engine: keep one of them .does a bundle such as PauseResume bring one
// says: two Caching policies in one engine: keep one of them
// says: two Layouts in one engine: keep one of them
// says: two Backends in one engine: keep one of them
#include "sluice/engine/engine.hpp"
#include "sluice/report/observer/series.hpp"
#include "sluice/report/observer/summary.hpp"

template <class... Roles>
#ifdef GOOD
sluice::Engine<typename sluice::Default<Roles>::type..., sluice::Summary, sluice::Series>
#else
sluice::Engine<typename sluice::Default<Roles>::type..., typename sluice::Default<Roles>::type...>
#endif
    engine_of(sluice::Parts<Roles...>);
using E = decltype(engine_of(sluice::roles::OnePerEngine{}));

std::int64_t use(E& engine) { return engine.step() == sluice::Stepped::ran ? engine.steps() : engine.alive(); }
