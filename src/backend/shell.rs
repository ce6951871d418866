//! [`Shell`], the language of the shell of a backend.

/// The language of the shell that runs the commands of a backend.
///
/// [Permission rules](crate::permission) read a command as this shell does, because the same text
/// may run other programs in another one: `ls $'\'; curl http://example.com #'` is one command in
/// bash, and two in `sh`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// Some shell of the POSIX family, such as dash, busybox's or bash. Syntax that these shells
    /// read differently is not understood.
    #[default]
    Posix,
}
