"""Alerts: what is watched, when it fires, and how that is said once.

condition  when an alert fires, or would have fired, judged on bounds of totals: pure
cause      the value that brought most of the hits that made an alert fire
ledger     which alerts fire and what is still to be said, kept in the store
message    what is said, as JSON and as text
webhook, mail  the ways on which it is said
watch      the job: judges, notes, sends, tries again
chat       what is said, as Slack and Discord take it
report     reports by week and month
"""
