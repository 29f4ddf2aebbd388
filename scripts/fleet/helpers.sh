# What recordings use: inputs, packages, servers. Sourced by scripts/record.

# package PROGRAM PACKAGE: makes sure that the program is there.
package() {
    command -v "$1" >/dev/null && return
    if ((EUID != 0)); then
        echo "record: $1 is missing; install the package $2" >&2
        return 1
    fi
    install_package "$2" && command -v "$1" >/dev/null ||
        { echo "record: cannot install $2" >&2 && return 1; }
}

install_package() {
    echo "record: installing $1" >&2
    # The package must not start a server of its own beside the measurement.
    local policy=/usr/sbin/policy-rc.d placed=false installed=true
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        placed=true
    fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >&2 ||
        { apt-get update -qq >&2 &&
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1" >&2; } ||
        installed=false
    [[ $placed == true ]] && rm -f "$policy"
    [[ $installed == true ]]
}

version() {
    dpkg-query -W -f '${Version}' "$1" 2>/dev/null || echo unknown
}

# text BYTES FILE: synthetic text, made once and copied.
text() {
    [[ -e $inputs/text-$1 ]] || made-text "$1" >"$inputs/text-$1"
    cp "$inputs/text-$1" "$2"
}

# tree BYTES COPIES: the directory `tree` with so many directories alike, of 2,000
# files each.
tree() {
    local copy
    text "$1" text
    mkdir tree
    for copy in $(seq "$2"); do
        made-tree text "tree/$copy"
    done
    rm text
}

# serve PROGRAM ARGUMENT…: a server beside the target, ended with the recording.
serve() {
    "$@" >"$work/server.log" 2>&1 &
    servers+=($!)
}

# answers HOST PORT: waits until something listens there.
answers() {
    for _ in $(seq 200); do
        (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null && return
        sleep 0.05
    done
    echo "record: nothing answers on $1:$2; the server said:" >&2
    tail -n 5 "$work/server.log" >&2
    return 1
}

free_port() {
    python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# serve_load URL OPTION… -- COMMAND…: a server under the load of $level. Its
# capacity is searched once; all levels and rounds then mean the same rate.
serve_load() {
    local url=$1 capacity
    shift
    if [[ $level == closed ]]; then
        profile --load "$url" --closed --metric throughput --label load=closed "$@"
        return
    fi
    capacity=$(python3 "$here/fleet" capacity "$out" --binary "$binary" "$service")
    if [[ -z $capacity ]]; then
        set -- --find-capacity --slo p99:1ms --load-share "$level" "$@"
    else
        set -- --rate "$((capacity * level / 100))/s" --label "capacity=$capacity/s" "$@"
    fi
    profile --load "$url" --metric latency:p99 --qos 50 --label "load=$level %" "$@"
}

# static_site PORT: files for an nginx that serves root/file there.
static_site() {
    mkdir root logs
    head -c 4096 /dev/zero | tr '\0' x >root/file
    cat >nginx.conf <<END
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
    access_log off;
    sendfile on;
    keepalive_requests 1000000000;
    server { listen 127.0.0.1:$1; root root; }
}
END
    # The worker gives up its rights and must still reach the file.
    chmod 755 . root
}

# data_directory NAME USER: a directory for the data of a server that runs as USER;
# prints it. Not below $work, which USER may not enter.
data_directory() {
    local directory=${RECORD_TMP:-/var/tmp}/jostle-record-$1
    mkdir "$directory" && chown "$2:" "$directory" || return 1
    echo "$directory" >>"$work/directories"
    echo "$directory"
}

# postgres_under_pgbench INPUT OPTION…: profiles a PostgreSQL of its own while
# pgbench asks it with these options, each on a CPU of its own; under the load of
# $level, if there is one. Then transactions that come 100 ms late are left out, so
# that none of a time with interference is done in one without.
postgres_under_pgbench() {
    local input=$1 port bin data server capacity labels=()
    shift
    port=$(free_port)
    bin=$(dirname "$(find /usr/lib/postgresql -name initdb | sort -V | tail -n 1)")
    data=$(data_directory pg postgres)
    as_postgres() {
        (cd "$data" && setpriv --reuid postgres --regid postgres --clear-groups "$@")
    }
    as_postgres "$bin/initdb" -D "$data/db" -A trust >/dev/null
    # Pinned here: jostle leaves a process it did not start as it is.
    serve setpriv --reuid postgres --regid postgres --clear-groups \
        taskset -c "$first_cpu" "$bin/postgres" -D "$data/db" -p "$port" -k "$data" \
        -c listen_addresses=127.0.0.1
    server=${servers[-1]}
    answers 127.0.0.1 "$port"
    as_postgres pgbench -h "$data" -p "$port" -i -s 10 -q postgres 2>/dev/null
    if [[ -n $level && $level != closed ]]; then
        capacity=$(python3 "$here/fleet" capacity "$out" --binary "$binary" "$service")
        [[ -n $capacity ]] ||
            capacity=$(as_postgres taskset -c "$last_cpu" pgbench -h "$data" -p "$port" "$@" \
                -T 5 postgres 2>/dev/null | sed -n 's/^tps = \([0-9]*\).*/\1/p')
        labels=(--label "load=$level %" --label "capacity=$capacity/s")
        set -- "$@" -R "$((capacity * level / 100))" -L 100
    fi
    serve setpriv --reuid postgres --regid postgres --clear-groups \
        taskset -c "$last_cpu" pgbench -h "$data" -p "$port" "$@" -T 1000000 postgres
    sleep 2
    profile --metric "progress:uprobe:$bin/postgres:PortalRun" --pid "$server" \
        "${labels[@]}" --label "input=$input" --label "version=$("$bin/postgres" --version)"
}

# demo NAME: one of jostle's own targets.
demo() {
    local port options=()
    if [[ $1 == network-bandwidth ]]; then
        port=$(free_port)
        serve "$jostle" sink --listen "127.0.0.1:$port"
        answers 127.0.0.1 "$port" || return 1
        options+=(--peer "127.0.0.1:$port")
    fi
    profile --demo "$1" "${options[@]}" --label "input=built in" \
        --label "version=$("$jostle" --version | cut -d' ' -f2)"
}

# memory_group BYTES: a memory cgroup of that size; prints its directory.
memory_group() {
    local version1 own group
    version1=$(sed -n 's/^[0-9]*:\([^:]*,\)\?memory\(,[^:]*\)\?:\(.*\)/\3/p' /proc/self/cgroup)
    if [[ -n $version1 ]]; then
        group=/sys/fs/cgroup/memory$version1/jostle-record-$$
        mkdir "$group" && echo "$1" >"$group/memory.limit_in_bytes" || return 1
    else
        own=$(sed -n 's/^0:://p' /proc/self/cgroup)
        group=/sys/fs/cgroup$own/jostle-record-$$
        mkdir "$group" && echo "$1" >"$group/memory.max" || return 1
    fi
    echo "$group" >>"$work/groups"
    echo "$group"
}

# Ends what a recording started and removes what it made.
clean() {
    local pid group directory index
    # The last first: clients before their server.
    for ((index = ${#servers[@]} - 1; index >= 0; index--)); do
        pid=${servers[index]}
        kill -TERM "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    [[ ! -e $work/groups ]] || while read -r group; do
        rmdir "$group" || true
    done <"$work/groups"
    [[ ! -e $work/directories ]] || while read -r directory; do
        rm -rf "$directory"
    done <"$work/directories"
    find "$work" -mindepth 1 -delete
}
