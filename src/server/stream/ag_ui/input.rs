//! The body of an AG-UI request.
