// SPDX-License-Identifier: Apache-2.0
// The roles of a server's parts, and how a part says which one it plays.
#pragma once

#include "sluice/core/role.hpp"

namespace sluice {

/// A part declares `using role = roles::Gate;`, as an engine's policy does.
namespace roles {

struct Api;        ///< what clients say and are answered; a server has one
struct Gate;       ///< whether a newcomer is let in; any number, asked in the order named
struct WhatIf;     ///< what other systems would have made of the requests; none or one
struct Connection; ///< what a client's bytes pass through, as TLS; plain HTTP if none is named

/// Those of which a server has at most one.
using OnePerServer = Parts<Api, WhatIf, Connection>;

} // namespace roles

/// As `Contract`, for the parts of a server around engine `E`: `met<P, E>` and `explain<P, E>()`; and
/// `explain_twice<Once>()` of a role that only one part may play. They stand in serve/compose_server.hpp, that of a
/// Connection in serve/beast/connection.hpp.
template <class Role>
struct ServerContract;

} // namespace sluice
