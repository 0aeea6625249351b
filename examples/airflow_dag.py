"""Airflow drains a queue into the lake, archives the ledger, audits both and writes the report, every hour.

Copy it to the folder of DAGs of Airflow 2.4 or later, and change the queue, the lake and the address. Whatever Airflow
does to a task, retries, kills and runs at the same time included, each message is in the lake once: a job goes on at
the number that the server knows, and only one drain of a consumer runs at a time. So no task depends on the hour it
runs for, and there is nothing to catch up.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # before Airflow 3
    from airflow.operators.bash import BashOperator

# A variable whose name has "api_key" in it is masked in Airflow's logs.
SERVER = {
    "PENSTOCK_URL": "http://queues:8080",
    "PENSTOCK_API_KEY": "{{ var.value.get('penstock_api_key', '') }}",
}

with DAG(
    "penstock_orders",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={
        "retries": 3,
        "retry_delay": timedelta(minutes=2),
        "execution_timeout": timedelta(hours=2),
        "env": SERVER,
        "append_env": True,
    },
) as dag:
    # A try that Airflow has lost sight of may still run: the next one waits for it.
    drain = BashOperator(
        task_id="drain",
        bash_command="exec penstock pipeline drain --queue orders --lake /data/lake --wait --json",
    )
    archive = BashOperator(
        task_id="archive",
        bash_command="exec penstock pipeline archive --lake /data/lake --json",
    )
    # Its exit code is 1 if something is lost or there twice, and no second try changes that.
    audit = BashOperator(
        task_id="audit",
        bash_command="exec penstock pipeline audit --lake /data/lake --json",
        retries=0,
    )
    report = BashOperator(
        task_id="report",
        bash_command="exec penstock pipeline report --lake /data/lake --to /data/report.html --json",
    )
    drain >> archive >> [audit, report]
