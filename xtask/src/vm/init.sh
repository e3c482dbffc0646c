#!/bin/busybox sh
# First program of a virtual machine: makes a root that pivot_root(2) can leave, which the initial one is not, then
# prints what Ringfence does here, a line each of a name and what it is.

if [ "$1" != second ]; then
    /bin/busybox mount -t tmpfs -o mode=755 none /root
    cd /
    for entry in bin dev etc init lib lib64 proc sys; do
        [ ! -e $entry ] || /bin/busybox cp -a $entry /root/
    done
    exec /bin/busybox switch_root /root /init second
fi

/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin HOME=/root
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/pts /dev/shm /root /run /tmp /var/tmp /home/u/ws /home/u/.ssh
mount -t devpts none /dev/pts
mount -t securityfs none /sys/kernel/security
chmod 1777 /tmp /var/tmp /dev/shm
ip link set lo up
echo secret >/home/u/.ssh/id
echo own >/home/u/own
for word in $(cat /proc/cmdline); do
    case $word in user_namespaces=*) echo "${word#*=}" >/proc/sys/user/max_user_namespaces ;; esac
done

# This is slow where the processor is emulated.
for home in /root /home/u; do
    mkdir -p -m 700 $home/.ringfence
    printf '[sandbox.protected]\nsearch_ms = 60000\n' >$home/.ringfence/config.toml
done
chown -R 1000:1000 /home/u
# By its path: busybox has one of its own, which can less.
become="/bin/setpriv --reuid 1000 --regid 1000 --clear-groups"
as_user() { $become env -i PATH=/bin HOME=/home/u "$@"; }
$become sleep 1000 &
neighbour=$!
cat >/bin/acts <<END
unshare user
unshare user,mnt
clone user
clone3 user
syscall add_key str:user str:planted str:x 1 -2
syscall adjtimex buf:208
syscall kcmp self self 1 0 0
syscall personality 8
vm-read self
vm-write self
read /home/u/.ssh/id
write /home/u/own
create /home/u/planted
create /var/tmp/planted
kill $neighbour 0
END
cat >/bin/try <<'END'
#!/bin/sh
while read -r line; do echo "@@$1 $line => $(ringfence-probe $line 2>&1)"; done </bin/acts
END
chmod 755 /bin/try

cd /home/u/ws
echo "@@kernel $(uname -r)"
echo "@@modules $(cat /sys/kernel/security/lsm)"
echo "@@landlock $(ringfence-probe syscall landlock_create_ruleset 0 0 1)"
echo "@@root $(ringfence run --json -- touch by-root 2>/dev/null)"
echo "@@user $(as_user ringfence run --json -- touch by-user 2>/dev/null)"
echo "@@network $(as_user ringfence run --json --net all -- true 2>/dev/null)"
echo "@@made $(ls | tr '\n' ' ')"
as_user try outside
as_user ringfence run -- try inside
rm -f /home/u/planted /var/tmp/planted
kill $neighbour
echo "@@end"
poweroff -f
