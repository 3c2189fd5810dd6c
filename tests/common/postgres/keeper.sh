# keeper.sh FOLDER: starts servers, and ends them with the test process.
#
# The test process holds the other end of standard input. `start SLOT` in it runs FOLDER/SLOT.run, and answers with the process
# number. When it closes, which a SIGKILL does too, every server is killed with all its processes, stopped ones included, and
# FOLDER is removed.
folder=$1
slots=''
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
    eval "before=\${pid_$slot-}"
    case $before in
        '') slots="$slots $slot" ;;
        # as long as nobody waited for it, its number belongs to nobody else
        *) wait "$before" ;;
    esac
    sh "$folder/$slot.run" >>"$folder/$slot.log" 2>&1 &
    eval "pid_$slot=\$!"
    echo "$!"
done

for slot in $slots; do
    eval "server=\$pid_$slot"
    kill -STOP "$server"
    kill -KILL $(children "$server") "$server"
done
wait
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$folder" && break
    sleep 0.2
done
