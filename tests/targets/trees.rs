//! Which cgroup a path, a container or a unit names, in made-up trees.

use crate::common::message;
use jostle_measure::workload::cgroup;
use jostle_measure::workload::cgroup::CgroupSpec;
use jostle_measure::workload::cgroup::Hierarchies;
use jostle_measure::workload::cgroup::container;
use jostle_measure::workload::cgroup::unit;
use std::path::Path;
use std::path::PathBuf;
use tempfile::TempDir;

const ID: &str = "4f0c1d2e3a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5";
const OTHER: &str = "4f0cffff3a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5";

const V2: &str = "24 1 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const HYBRID: &str = "\
24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
26 24 0:24 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
27 24 0:25 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
28 24 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
29 24 0:27 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
";

/// A machine that is only files.
struct Tree(TempDir);

impl Tree {
    fn new(mountinfo: &str) -> Tree {
        let tree = Tree(tempfile::tempdir().unwrap());
        tree.file("proc/self/mountinfo", mountinfo);
        tree
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// A cgroup below `/sys/fs/cgroup` with these processes.
    fn cgroup(&self, path: &str, processes: &str) {
        self.file(&format!("sys/fs/cgroup/{path}/cgroup.procs"), processes);
    }

    fn hierarchies(&self) -> Hierarchies {
        Hierarchies::below(self.0.path()).unwrap()
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("sys/fs/cgroup").join(path)
    }

    fn resolve(&self, path: &str) -> jostle_measure::error::Result<CgroupSpec> {
        cgroup::resolve(&self.hierarchies(), path)
    }

    fn container(&self, given: &str) -> jostle_measure::error::Result<CgroupSpec> {
        let home = Path::new("/home/a");
        container::resolve(&self.hierarchies(), self.0.path(), Some(home), given)
    }

    fn unit(&self, given: &str) -> jostle_measure::error::Result<CgroupSpec> {
        unit::resolve(&self.hierarchies(), given)
    }
}

#[test]
fn a_path_is_taken_as_people_write_it() {
    let tree = Tree::new(V2);
    tree.cgroup("system.slice/x.service", "11\n12\n");
    tree.cgroup("system.slice/x.service/inner", "13\n");
    let expected = tree.path("system.slice/x.service");
    let absolute = expected.to_string_lossy().into_owned();
    for given in [
        "/system.slice/x.service",
        "system.slice/x.service/",
        absolute.as_str(),
    ] {
        let spec = tree.resolve(given).unwrap();
        assert_eq!(spec.directory, expected, "{given}");
        assert_eq!(spec.name, "x.service");
    }
    assert_eq!(cgroup::processes(&expected).unwrap(), [11, 12, 13]);
    let text = message(tree.resolve("/system.slice/y.service"), 2);
    assert!(
        text.contains("near names: /system.slice/x.service"),
        "{text}"
    );
    for root in ["/", ""] {
        let text = message(tree.resolve(root), 2);
        assert!(text.contains("root cgroup"), "{text}");
    }
    message(tree.resolve("../../proc"), 2);
}

#[test]
fn one_path_in_several_hierarchies() {
    let tree = Tree::new(HYBRID);
    for hierarchy in ["memory", "freezer", "systemd"] {
        tree.cgroup(&format!("{hierarchy}/a/b"), "5\n6\n");
    }
    tree.cgroup("unified/a/b", "");
    // v2 holds nothing here; of the others the freezer can stop them.
    assert_eq!(
        tree.resolve("/a/b").unwrap().directory,
        tree.path("freezer/a/b")
    );
    assert_eq!(
        tree.resolve("memory/a/b").unwrap().directory,
        tree.path("memory/a/b")
    );
    tree.cgroup("unified/a/b", "5\n6\n");
    assert_eq!(
        tree.resolve("a/b").unwrap().directory,
        tree.path("unified/a/b")
    );
    tree.cgroup("memory/a/b", "7\n");
    let text = message(tree.resolve("a/b"), 2);
    assert!(text.contains("different processes"), "{text}");
    assert!(text.contains("memory/a/b (1 processes)"), "{text}");
}

#[test]
fn a_mount_that_shows_a_part_only() {
    let tree = Tree::new("24 1 0:22 /outer/box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    tree.cgroup("job", "5\n");
    for given in ["/outer/box/job", "/job"] {
        assert_eq!(tree.resolve(given).unwrap().directory, tree.path("job"));
    }
    let nothing = Tree::new("24 1 0:22 / / rw - ext4 /dev/vda rw\n");
    assert!(Hierarchies::below(nothing.0.path()).is_err());
}

#[test]
fn containers_are_found_by_id_without_an_engine() {
    let pod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod7.slice";
    for (mounts, path) in [
        (V2, format!("system.slice/docker-{ID}.scope")),
        (V2, format!("docker/{ID}")),
        (V2, format!("{pod}/cri-containerd-{ID}.scope")),
        (V2, format!("{pod}/crio-{ID}.scope")),
        (V2, format!("kubepods/burstable/pod7/{ID}")),
        (V2, format!("machine.slice/libpod-{ID}.scope")),
        (V2, format!("libpod_parent/libpod-{ID}")),
        (
            V2,
            format!("user.slice/user-1.slice/user@1.service/user.slice/libpod-{ID}.scope"),
        ),
        (V2, format!("default/{ID}")),
        (
            V2,
            format!("kubepods-besteffort-pod7.slice:cri-containerd:{ID}"),
        ),
        (HYBRID, format!("freezer/docker/{ID}")),
        (HYBRID, format!("memory/kubepods/besteffort/pod7/{ID}")),
        (HYBRID, format!("systemd/system.slice/docker-{ID}.scope")),
    ] {
        let tree = Tree::new(mounts);
        tree.cgroup(&path, "5\n");
        // The monitor is not the container, nor is what lies inside of it.
        tree.cgroup(&format!("{pod}/crio-conmon-{ID}.scope"), "6\n");
        tree.cgroup(&format!("{path}/init.scope"), "7\n");
        for given in [ID, &ID[..12], &ID[..5]] {
            let spec = tree.container(given).unwrap();
            assert_eq!(spec.directory, tree.path(&path), "{given}");
            assert_eq!(spec.name, ID[..12]);
        }
    }
}

#[test]
fn a_container_in_every_v1_hierarchy_is_one() {
    let tree = Tree::new(HYBRID);
    for hierarchy in ["memory", "cpu,cpuacct", "freezer", "systemd"] {
        tree.cgroup(&format!("{hierarchy}/docker/{ID}"), "5\n");
    }
    let spec = tree.container(&ID[..8]).unwrap();
    assert_eq!(spec.directory, tree.path(&format!("freezer/docker/{ID}")));
}

#[test]
fn an_ambiguous_id_lists_the_containers() {
    let tree = Tree::new(V2);
    tree.cgroup(&format!("system.slice/docker-{ID}.scope"), "5\n");
    tree.cgroup(&format!("machine.slice/libpod-{OTHER}.scope"), "6\n");
    let text = message(tree.container("4f0c"), 2);
    for part in [&ID[..12], &OTHER[..12], "docker", "podman", "give more"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(tree.container("4f0c1").is_ok());
    let text = message(tree.container("4f0d"), 2);
    assert!(text.contains("works without any of these"), "{text}");
    assert!(
        text.contains("/var/lib/docker/containers: not there"),
        "{text}"
    );
    message(tree.container(""), 2);
}

#[test]
fn names_are_read_from_the_engines_files() {
    let pod = "kubepods.slice/kubepods-pod7.slice";
    let task = "run/containerd/io.containerd.runtime.v2.task";
    let cri = |kind: &str, name: &str| {
        format!(
            r#"{{"annotations": {{"io.kubernetes.cri.container-type": "{kind}",
            "io.kubernetes.cri.container-name": "{name}",
            "io.kubernetes.cri.sandbox-name": "shop-1",
            "io.kubernetes.cri.sandbox-namespace": "prod"}},
            "linux": {{"cgroupsPath": "x"}}}}"#
        )
    };
    /// Path and text.
    type File = (String, String);
    let cases: Vec<(&str, String, Vec<File>)> = vec![
        (
            "docker",
            format!("system.slice/docker-{ID}.scope"),
            vec![(
                format!("var/lib/docker/containers/{ID}/config.v2.json"),
                format!(r#"{{"ID": "{ID}", "Name": "/web", "State": {{}}}}"#),
            )],
        ),
        (
            "docker that was moved",
            format!("docker/{ID}"),
            vec![
                (
                    "etc/docker/daemon.json".into(),
                    r#"{"data-root": "/big/docker"}"#.into(),
                ),
                (
                    format!("big/docker/containers/{ID}/config.v2.json"),
                    format!(r#"{{"ID": "{ID}", "Name": "/web"}}"#),
                ),
            ],
        ),
        (
            "containerd of k3s",
            format!("kubepods/besteffort/pod7/{ID}"),
            vec![(
                format!(
                    "{}/k8s.io/{ID}/config.json",
                    task.replace("run/", "run/k3s/")
                ),
                cri("container", "web"),
            )],
        ),
        (
            "rootless podman",
            format!("user.slice/libpod-{ID}.scope"),
            vec![(
                "home/a/.local/share/containers/storage/overlay-containers/containers.json".into(),
                format!(r#"[{{"id": "{ID}", "names": ["web"]}}, {{"id": 7}}]"#),
            )],
        ),
        (
            "containerd",
            format!("{pod}/cri-containerd-{ID}.scope"),
            vec![
                (
                    format!("{task}/k8s.io/{ID}/config.json"),
                    cri("container", "web"),
                ),
                (
                    format!("{task}/k8s.io/{OTHER}/config.json"),
                    cri("sandbox", "web"),
                ),
            ],
        ),
        (
            "nerdctl",
            format!("default/{ID}"),
            vec![(
                format!("{task}/default/{ID}/config.json"),
                r#"{"annotations": {"nerdctl/name": "web"}}"#.into(),
            )],
        ),
        (
            "ctr, whose ids are names",
            "default/web".into(),
            vec![(
                format!("{task}/default/web/config.json"),
                r#"{"linux": {"cgroupsPath": "/default/web"}}"#.into(),
            )],
        ),
        (
            "cri-o",
            format!("{pod}/crio-{ID}.scope"),
            vec![(
                format!("var/lib/containers/storage/overlay-containers/{ID}/userdata/config.json"),
                r#"{"annotations": {"io.kubernetes.container.name": "web",
                    "io.kubernetes.cri-o.ContainerType": "container",
                    "io.kubernetes.pod.name": "shop-1",
                    "io.kubernetes.pod.namespace": "prod"}}"#
                    .into(),
            )],
        ),
    ];
    for (engine, path, files) in cases {
        let tree = Tree::new(V2);
        tree.cgroup(&path, "5\n");
        // Another container runs, whose engine left rubbish.
        tree.cgroup(&format!("system.slice/docker-{OTHER}.scope"), "6\n");
        tree.file(
            &format!("var/lib/docker/containers/{OTHER}/config.v2.json"),
            "{\"ID",
        );
        for (file, text) in files {
            tree.file(&file, &text);
        }
        let spec = tree.container("web").unwrap();
        assert_eq!(spec.directory, tree.path(&path), "{engine}");
        assert_eq!(spec.name, "web", "{engine}");
        if engine == "containerd" || engine == "cri-o" {
            assert!(tree.container("shop-1/web").is_ok(), "{engine}");
            assert!(tree.container("prod/shop-1/web").is_ok(), "{engine}");
        }
        message(tree.container("prod/shop-2/web"), 2);
        let text = message(tree.container("wob"), 2);
        assert!(text.contains("near names: web"), "{engine}: {text}");
    }
}

#[test]
fn a_name_of_several_containers_or_of_a_dead_one() {
    let tree = Tree::new(V2);
    let task = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    for (id, pod) in [(ID, "a"), (OTHER, "b")] {
        tree.cgroup(&format!("kubepods/pod{pod}/{id}"), "5\n");
        let annotations = format!(
            r#"{{"annotations": {{"io.kubernetes.cri.container-name": "web",
            "io.kubernetes.cri.sandbox-name": "{pod}",
            "io.kubernetes.cri.sandbox-namespace": "prod"}}}}"#
        );
        tree.file(&format!("{task}/{id}/config.json"), &annotations);
    }
    let text = message(tree.container("web"), 2);
    assert!(
        text.contains("prod/a/web") && text.contains("prod/b/web"),
        "{text}"
    );
    let of_b = tree.container("b/web").unwrap();
    assert_eq!(of_b.directory, tree.path(&format!("kubepods/podb/{OTHER}")));
    tree.file(
        "var/lib/docker/containers/dead/config.v2.json",
        &format!(r#"{{"ID": "{}", "Name": "/old"}}"#, "0".repeat(64)),
    );
    let text = message(tree.container("old"), 2);
    assert!(text.contains("does not run"), "{text}");
}

#[test]
fn units_are_found_by_their_directory() {
    for (mounts, base) in [(V2, ""), (HYBRID, "unified/"), (HYBRID, "systemd/")] {
        let tree = Tree::new(mounts);
        let user = "user.slice/user-1000.slice/user@1000.service/app.slice";
        tree.cgroup(&format!("{base}system.slice/nginx.service"), "5\n");
        tree.cgroup(&format!("{base}{user}/nginx.service"), "6\n");
        tree.cgroup(&format!("{base}{user}/mine.service"), "7\n");
        tree.cgroup(
            &format!("{base}user.slice/user-1000.slice/session-1.scope"),
            "8\n",
        );
        tree.cgroup(
            &format!("{base}system.slice/system-db.slice/db@one.service"),
            "9\n",
        );
        for (given, path) in [
            ("nginx", "system.slice/nginx.service"),
            ("nginx.service", "system.slice/nginx.service"),
            (
                "user-1000.slice/nginx.service",
                &format!("{user}/nginx.service"),
            ),
            ("mine", &format!("{user}/mine.service")),
            (
                "session-1.scope",
                "user.slice/user-1000.slice/session-1.scope",
            ),
            ("db@one", "system.slice/system-db.slice/db@one.service"),
        ] {
            let spec = tree.unit(given).unwrap();
            assert_eq!(
                spec.directory,
                tree.path(&format!("{base}{path}")),
                "{given}"
            );
        }
        let text = message(tree.unit("ngnix"), 2);
        assert!(text.contains("near names: nginx.service"), "{text}");
        message(tree.unit(""), 2);
        let other = user.replace("1000", "1001");
        tree.cgroup(&format!("{base}{other}/mine.service"), "10\n");
        let text = message(tree.unit("mine"), 2);
        assert!(
            text.contains("user-1001.slice") && text.contains("2 units"),
            "{text}"
        );
    }
    let bare = Tree::new(V2);
    let text = message(bare.unit("nginx"), 2);
    assert!(text.contains("is systemd running?"), "{text}");
}
