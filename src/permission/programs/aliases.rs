//! Other names of subcommands.

/// Names of programs, and their subcommands that mean the same. `+` stands between two words.
const SUBCOMMANDS: &[(&str, &str)] = &[
    (
        "npm pnpm bun",
        "install=i=add=in=ins=inst ci=clean-install=ic uninstall=unlink=remove=rm=un=r exec=x \
         run=run-script=rum=urn test=t=tst publish=pub update=up=upgrade=udpate list=ls=la=ll \
         view=info=show=v login=adduser=add-user config=c",
    ),
    (
        "yarn",
        "upgrade=up list=ls publish=npm+publish login=npm+login",
    ),
    ("cargo", "build=b check=c test=t run=r doc=d remove=rm"),
    (
        "git",
        "add=stage blame=annotate push=lfs+push remote+remove=remote+rm",
    ),
    (
        "docker podman nerdctl",
        "rm=container+rm=container+remove rmi=image+rm=image+remove run=container+run \
         exec=container+exec ps=container+ls=container+ps=container+list=ls images=image+ls=image+list \
         stop=container+stop kill=container+kill start=container+start restart=container+restart \
         cp=container+cp create=container+create commit=container+commit pull=image+pull \
         push=image+push tag=image+tag load=image+load save=image+save import=image+import \
         build=image+build=buildx+build=builder+build volume+rm=volume+remove \
         network+rm=network+remove",
    ),
    (
        "helm",
        "uninstall=delete=del=un list=ls dependency=dep repo+remove=repo+rm",
    ),
    (
        "gh glab",
        "pr+create=pr+new issue+create=issue+new repo+create=repo+new release+create=release+new \
         gist+create=gist+new mr+create=mr+new mr+merge=mr+accept",
    ),
    ("kubectl oc", "delete=del"),
    (
        "composer",
        "remove=rm=uninstall require=r install=i update=u=upgrade",
    ),
    (
        "rustup",
        "toolchain+uninstall=toolchain+remove target+remove=target+uninstall",
    ),
    ("brew", "uninstall=remove=rm list=ls"),
    ("apt apt-get aptitude", "remove=purge=autoremove"),
    (
        "dnf yum",
        "remove=erase=autoremove install=in upgrade=update=up",
    ),
    ("zypper", "remove=rm install=in update=up"),
    ("flatpak", "uninstall=remove"),
];

/// The other names of a subcommand of the program.
pub(crate) fn aliases(program: &str, subcommand: &str) -> impl Iterator<Item = &'static str> {
    let mut tables = SUBCOMMANDS.iter();
    let table = tables.find(|(names, _)| names.split(' ').any(|name| name == program));
    let mut groups = table
        .map_or("", |(_, groups)| *groups)
        .split_ascii_whitespace();
    let group = groups.find(|group| group.split('=').any(|name| name == subcommand));
    group
        .into_iter()
        .flat_map(|group| group.split('='))
        .filter(move |name| *name != subcommand)
}
