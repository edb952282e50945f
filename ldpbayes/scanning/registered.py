"""What the room brings: the page of a scan, files of cells, and data frames of Spark."""

PAGES = {"ldpbayes.scanning.found.Found": ("the cells of a scan", "scanning.page.of_scan")}
CELLS = {"read": "scanning.found.of_files", "write": "scanning.summary_files.write"}
SOURCES = {"pyspark.sql": "scanning.spark.opened"}
