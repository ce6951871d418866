//! The body of a `useChat` request.
