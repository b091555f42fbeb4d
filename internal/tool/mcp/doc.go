// Package mcp runs tools of one server of the Model Context Protocol, either a
// process of ours (stdio) or a streamable HTTP endpoint.
//
// The server is connected to when it is first needed, and again after a
// connection ended. Its process ends with [Tools.Close], or when it stops
// answering to its protocol.
//
// # What is sent
//
// A call's arguments keep every name, number and string as the model wrote
// them; only white space between them goes. The invocation id goes along in
// _meta under [MetaInvocation]: the same id is the same call.
//
// # What comes back
//
// Text is joined line by line; what is no text (images, audio, links) becomes
// a short note. Structured content is added as JSON, unless a text says the
// same. Numbers that stand in structured content alone pass through the SDK as
// 64-bit floats.
//
// # Invariants
//
//  1. A call is sent once. It is tried again on a new connection only if it
//     certainly never left over the old one, or the server said that it does
//     not know the session (HTTP 404): a redirect, a gateway's error and a
//     request of the server for more input are all answered with no second
//     request.
//  2. Failed is certain: the call never left, or the server answered. Anything
//     else is Lost.
//  3. The protocol has no look-up: an inspection is always unsupported.
//  4. What a server says of itself is not trusted. Its hints are told as
//     [Spec.HintedEffect]; who uses them decides so. Its descriptions are text
//     for a model, bounded in size.
//  5. A process sees of our environment what it needs to start, and no
//     secrets: see [Config.Env].
package mcp
