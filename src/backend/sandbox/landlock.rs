//! The limits that Landlock enforces: on files, TCP ports, abstract sockets and signals.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus,
    NetPort, PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::fs::{FileType, fstat};

use crate::error::{Error, ErrorKind, Result};

use super::super::denied::DeniedPath;
use super::carve::{carve, real_path};
use super::policy::{Access, Sandbox};

/// The devices that each command may use: none stores data, and most programs need the first.
const DEVICES: [&str; 5] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Returns the version of Landlock in this kernel. Restricts the thread that asks.
pub(super) fn probe() -> u32 {
    let result = Ruleset::default()
        .handle_access(AccessFs::Execute)
        .and_then(Ruleset::create)
        .and_then(RulesetCreated::restrict_self);
    match result.map(|status| status.landlock) {
        Ok(LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        _ => 0,
    }
}

/// Restricts this thread, and all processes it starts, permanently.
pub(super) fn restrict(
    sandbox: &Sandbox,
    denied: &[DeniedPath],
    private_folder: Option<&Path>,
    abi: u32,
) -> Result<()> {
    let abi = ABI::from(i32::try_from(abi).unwrap_or(i32::MAX));
    let empty_ruleset = ruleset(sandbox, abi).map_err(failed)?;
    let with_paths = add_paths(empty_ruleset, sandbox, denied, private_folder, abi)?;
    let with_ports = add_ports(with_paths, sandbox, abi).map_err(failed)?;
    let status = with_ports.restrict_self().map_err(failed)?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        other => Err(failed(io::Error::other(format!("it is {other:?}")))),
    }
}

fn ruleset(sandbox: &Sandbox, abi: ABI) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        // Unsupported rules are errors: `abi` was chosen to match the kernel.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    if abi >= ABI::V4 && !sandbox.any_network {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi))?;
    }

    if abi >= ABI::V6 {
        if !sandbox.any_network {
            ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
        }

        if !sandbox.signals {
            ruleset = ruleset.scope(Scope::Signal)?;
        }
    }

    ruleset.create()
}

fn add_paths(
    mut ruleset: RulesetCreated,
    sandbox: &Sandbox,
    denied: &[DeniedPath],
    private_folder: Option<&Path>,
    abi: ABI,
) -> Result<RulesetCreated> {
    for allowed in &sandbox.paths {
        let rights = rights(allowed.access, abi);
        let is_held = allowed.access != Access::Write || sandbox.hold_denied;
        for (part, denied_paths) in parts(rights, denied, is_held) {
            ruleset = add_path(
                ruleset,
                &allowed.path,
                part,
                &denied_paths,
                allowed.required,
                abi,
            )?;
        }
    }

    let device = AccessFs::ReadFile | AccessFs::WriteFile | (all(abi) & AccessFs::Truncate);
    for path in DEVICES {
        ruleset = add_path(ruleset, Path::new(path), device, &[], false, abi)?;
    }
    match private_folder {
        Some(path) => add_path(ruleset, path, rights(Access::Write, abi), &[], true, abi),
        None => Ok(ruleset),
    }
}

/// Returns the rights in three parts, each with the paths on which it is denied: listing, which is
/// never denied, reading and writing.
fn parts(
    rights: BitFlags<AccessFs>,
    denied: &[DeniedPath],
    is_held: bool,
) -> [(BitFlags<AccessFs>, Vec<PathBuf>); 3] {
    let list = BitFlags::from(AccessFs::ReadDir);
    let read = AccessFs::ReadFile | AccessFs::Execute;
    let paths = |is_denied: fn(&DeniedPath) -> bool| -> Vec<PathBuf> {
        denied
            .iter()
            .filter(|path| is_held && is_denied(path))
            .map(|path| real_path(&path.path))
            .collect()
    };
    [
        (rights & list, Vec::new()),
        (rights & read, paths(|path| path.read)),
        (rights & !(list | read), paths(|path| path.write)),
    ]
}

/// Allows a path without the denied paths in it.
fn add_path(
    mut ruleset: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
    denied: &[PathBuf],
    is_required: bool,
    abi: ABI,
) -> Result<RulesetCreated> {
    let carved = carve(
        path,
        denied,
        &mut |handle: OwnedFd| -> Result<(), LandlockFailure> {
            let stat = fstat(&handle).map_err(io::Error::from)?;
            let rights = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => rights,
                _ => rights & AccessFs::from_file(abi),
            };
            if !rights.is_empty() {
                let rule = PathBeneath::new(handle, rights);
                (&mut ruleset)
                    .add_rule(rule)
                    .map_err(LandlockFailure::Rule)?;
            }
            Ok(())
        },
    );
    match carved {
        Ok(()) => Ok(ruleset),
        Err(LandlockFailure::File(error))
            if !is_required && error.kind() == io::ErrorKind::NotFound =>
        {
            Ok(ruleset)
        }
        Err(LandlockFailure::File(error)) => {
            let text = format!("the sandbox allows {path:?}, which cannot be opened: {error}");
            Err(Error::new(ErrorKind::Config, text).with_source(error))
        }
        Err(LandlockFailure::Rule(error)) => Err(failed(error)),
    }
}

/// The reason why a path could not be allowed.
enum LandlockFailure {
    File(io::Error),
    Rule(RulesetError),
}

impl From<io::Error> for LandlockFailure {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

fn add_ports(
    mut ruleset: RulesetCreated,
    sandbox: &Sandbox,
    abi: ABI,
) -> Result<RulesetCreated, RulesetError> {
    if abi < ABI::V4 || sandbox.any_network {
        return Ok(ruleset);
    }
    let connect_ports = sandbox
        .connect
        .iter()
        .map(|port| (port, AccessNet::ConnectTcp));
    let bind = sandbox.bind.iter().map(|port| (port, AccessNet::BindTcp));
    for (port, access) in connect_ports.chain(bind) {
        ruleset = ruleset.add_rule(NetPort::new(*port, access))?;
    }
    Ok(ruleset)
}

fn all(abi: ABI) -> BitFlags<AccessFs> {
    AccessFs::from_all(abi)
}

fn rights(access: Access, abi: ABI) -> BitFlags<AccessFs> {
    match access {
        Access::Read => AccessFs::ReadFile | AccessFs::ReadDir,
        Access::Execute => AccessFs::from_read(abi),
        // With a device file, a privileged user could access the whole disk.
        Access::Write => {
            all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let text = format!("the sandbox could not be set up: {error}");
    Error::new(ErrorKind::Config, text).with_source(error)
}
