//! Filters for sockets that Landlock does not cover, and for keyrings.

use std::collections::BTreeMap;

use libc::c_int;
use seccompiler::{
    BpfProgram, Error as FilterError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp,
    SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
};

use crate::error::{Error, ErrorKind, Result};

use super::policy::Sandbox;

/// Added to the numbers of system calls in the 32-bit style of x86_64.
const X32: i64 = 0x4000_0000;
/// The bits of a socket's type that are its type; the others are flags.
const TYPE: u64 = 0xf;

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;
type Built<T> = std::result::Result<T, seccompiler::BackendError>;

/// Returns `true` if this kernel has filters. Installs a filter that allows everything.
pub(super) fn probe() -> bool {
    program(SeccompRules::new()).is_ok_and(|program| apply_filter(&program).is_ok())
}

/// Restricts this thread, and all processes it starts, permanently.
pub(super) fn restrict(sandbox: &Sandbox) -> Result<()> {
    let make_error = |error: FilterError| {
        let text = format!("the filter of the sandbox could not be set up: {error}");
        Error::new(ErrorKind::Config, text).with_source(error)
    };
    let program = rules(sandbox).and_then(program);
    apply_filter(&program.map_err(|error| make_error(error.into()))?).map_err(make_error)
}

fn program(rules: SeccompRules) -> Built<BpfProgram> {
    // A system call of another architecture kills the process: its numbers have another meaning.
    let arch = std::env::consts::ARCH.try_into()?;
    let action = SeccompAction::Errno(libc::EACCES as u32);
    SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
}

/// Returns the rules for refused system calls.
fn rules(sandbox: &Sandbox) -> Built<SeccompRules> {
    let mut rules = SeccompRules::new();
    let mut refuse = |call: libc::c_long, when: Vec<SeccompRule>| {
        #[cfg(target_arch = "x86_64")]
        rules.insert(call | X32, when.clone());
        rules.insert(call, when);
    };

    for call in [libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key] {
        refuse(call, Vec::new());
    }

    if sandbox.any_network {
        return Ok(rules);
    }

    // The filter does not see operations that are submitted through io_uring.
    refuse(libc::SYS_io_uring_setup, Vec::new());
    refuse(libc::SYS_socket, sockets(sandbox)?);
    if sandbox.bind.is_empty() && !sandbox.unix_sockets {
        // `listen` on an unbound socket binds it to a free port.
        refuse(libc::SYS_listen, Vec::new());
    }

    // `MSG_FASTOPEN` connects while sending and would bypass the allowed ports.
    let fast_open = libc::MSG_FASTOPEN as u64;
    for (call, argument) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        let flag = masked(argument, fast_open, fast_open)?;
        refuse(call, vec![SeccompRule::new(vec![flag])?]);
    }

    Ok(rules)
}

/// Returns the rules for refused sockets.
fn sockets(sandbox: &Sandbox) -> Built<Vec<SeccompRule>> {
    let internet = [libc::AF_INET, libc::AF_INET6];
    let mut families = Vec::new();
    if sandbox.unix_sockets {
        families.push(libc::AF_UNIX);
    }

    if sandbox.tcp() || sandbox.udp {
        families.extend(internet);
    }

    let family_conditions = families
        .iter()
        .map(|family| is_not(0, *family))
        .collect::<Built<Vec<_>>>()?;
    if family_conditions.is_empty() {
        return Ok(Vec::new());
    }

    let mut rules = vec![SeccompRule::new(family_conditions)?];

    // Only the usual protocols: Landlock does not check others, such as MPTCP.
    let protocols = [
        (sandbox.tcp(), libc::SOCK_STREAM, libc::IPPROTO_TCP),
        (sandbox.udp, libc::SOCK_DGRAM, libc::IPPROTO_UDP),
    ];
    for family in internet
        .into_iter()
        .filter(|family| families.contains(family))
    {
        for kind in 0..=TYPE {
            let is_kind = [is(0, family)?, masked(1, TYPE, kind)?];
            let protocol = protocols.iter().find(|(is_allowed, socket_kind, _)| {
                *is_allowed && u64::try_from(*socket_kind) == Ok(kind)
            });

            let mut conditions = is_kind.to_vec();
            if let Some((.., protocol)) = protocol {
                conditions.extend([is_not(2, 0)?, is_not(2, *protocol)?]);
            }

            rules.push(SeccompRule::new(conditions)?);
        }
    }

    Ok(rules)
}

fn is(argument: u8, value: c_int) -> Built<SeccompCondition> {
    condition(argument, SeccompCmpOp::Eq, value as u64)
}

fn is_not(argument: u8, value: c_int) -> Built<SeccompCondition> {
    condition(argument, SeccompCmpOp::Ne, value as u64)
}

fn masked(argument: u8, mask: u64, value: u64) -> Built<SeccompCondition> {
    condition(argument, SeccompCmpOp::MaskedEq(mask), value)
}

fn condition(argument: u8, operator: SeccompCmpOp, value: u64) -> Built<SeccompCondition> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}
