-- Why a turn did not come to its end. failure is what muster saw of it; error is what the agent said of it, one line.
-- Of turns that failed before this nobody wrote it down.
alter table turns
    add column failure text constraint turns_failure_check
        check (failure in ('reported', 'busy', 'deadline', 'lost', 'stopped', 'unrecorded')),
    add column error text constraint turns_error_check check (char_length(error) between 1 and 500),
    add constraint turns_failed_check
        check ((failure is null or state = 'unconfirmed') and (error is null or failure is not null));
grant update (failure, error) on turns to muster_app;
