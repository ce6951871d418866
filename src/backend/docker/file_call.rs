//! [`FileCall`], one call of the script for files in the container.

/// One call of the script for files in the container.
#[derive(Debug)]
pub(super) struct FileCall<'a> {
    pub(super) op: FileOp,
    pub(super) path: &'a str,
    /// The arguments that the operation has in addition to the path.
    pub(super) arguments: &'a [String],
    pub(super) input: &'a [u8],
    /// The maximum size of the output, in bytes.
    pub(super) max_output: u64,
}

/// An operation of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileOp {
    Read,
    Range,
    Stat,
    Write,
    Append,
    List,
    Remove,
    /// Lists the whole tree.
    #[cfg(feature = "search")]
    Tree,
    /// Reads several files of a folder.
    #[cfg(feature = "search")]
    ReadMany,
}

impl FileOp {
    /// Returns the operation's name in the script.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Range => "range",
            Self::Stat => "stat",
            Self::Write => "write",
            Self::Append => "append",
            Self::List => "list",
            Self::Remove => "remove",
            #[cfg(feature = "search")]
            Self::Tree => "tree",
            #[cfg(feature = "search")]
            Self::ReadMany => "many",
        }
    }
}

impl<'a> FileCall<'a> {
    /// Creates a call without arguments and input.
    pub(super) fn new(op: FileOp, path: &'a str, max_output: u64) -> Self {
        Self {
            op,
            path,
            arguments: &[],
            input: b"",
            max_output,
        }
    }

    pub(super) fn arguments(mut self, arguments: &'a [String]) -> Self {
        self.arguments = arguments;
        self
    }

    pub(super) fn input(mut self, input: &'a [u8]) -> Self {
        self.input = input;
        self
    }
}
