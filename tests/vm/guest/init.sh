#!/bin/busybox sh
# The VM's first process: loads drivers, then goes on in the host's own file system, which it sees
# read-only, with a layer in memory on top for all that is written.

/bin/busybox mkdir -p /proc /sys /dev /lower /layer /newroot
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
. /conf

# The first port tells the host about events, a JSON object to a line.
tell() {
	echo "$1" >/dev/vport0p1
}

fail() {
	tell "{\"event\": \"broken\", \"text\": \"$*\"}"
	echo b >/proc/sysrq-trigger
	sleep 60
}

while read -r module; do
	insmod "/mod/$module" 2>/dev/null
done </mod/list
tries=0
until [ -c /dev/vport0p1 ] && [ -c /dev/vport0p2 ]; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || echo b >/proc/sysrq-trigger
	sleep 0.1
done
tell '{"event": "alive"}'

plan9=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o ro,$plan9,cache=loose root /lower || fail "it cannot mount the host's file system"
mount -t tmpfs -o size=75%,mode=755 layer /layer
mkdir /layer/upper /layer/work
overlay=lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work,xino=off,index=off
mount -t overlay -o $overlay root /newroot || fail "it cannot put a layer on its root"

cd /newroot
mkdir -p proc sys dev run tmp
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs -o mode=755 dev dev
mkdir -p dev/shm dev/pts
ln -sf /proc/self/fd dev/fd
ln -sf fd/0 dev/stdin
ln -sf fd/1 dev/stdout
ln -sf fd/2 dev/stderr
mount -t tmpfs -o mode=1777,size=75% shm dev/shm
mount -t devpts -o mode=620,ptmxmode=666 devpts dev/pts
mount -t tmpfs -o mode=755 run run
mkdir -p run/vm/bin run/lock run/netns
cp /task.json run/vm/task.json
# Folders of the host whose changes stay.
while read -r tag folder; do
	mount -t 9p -o $plan9,cache=mmap "$tag" "/newroot$folder" || fail "it cannot mount $folder"
done </shares
cd /
umount /proc
exec switch_root /newroot "$PYTHON" -B -I "$MAIN"
