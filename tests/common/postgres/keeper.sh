# keeper.sh FOLDER POSTGRES: starts servers, and ends them with the test process.
#
# The test process holds the other end of standard input. `start SLOT` in it runs the server whose data is FOLDER/SLOT, and
# answers with its process number. When it closes, which a SIGKILL does too, every server is killed with all its processes,
# stopped ones included, and FOLDER is removed.
folder=$1
postgres=$2
pid_0='' pid_1='' pid_2=''
# the kernel sends it when the test process ends while a server of the group is stopped
trap '' HUP

children() { # of a process; PostgreSQL gives each a process group of its own, so there is no group to signal
    for stat in /proc/[0-9]*/stat; do
        { read -r number _ _ parent _ <"$stat"; } 2>/dev/null || continue
        [ "$parent" = "$1" ] && echo "$number"
    done
}

while read -r command slot; do
    [ "$command" = start ] || continue
    eval "before=\$pid_$slot"
    # as long as nobody waited for it, its number belongs to nobody else
    [ -z "$before" ] || wait "$before"
    "$postgres" -D "$folder/$slot" >>"$folder/$slot.log" 2>&1 &
    eval "pid_$slot=\$!"
    echo "$!"
done

for server in $pid_0 $pid_1 $pid_2; do
    kill -STOP "$server"
    kill -KILL $(children "$server") "$server"
done
wait
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$folder" && break
    sleep 0.2
done
