"""What acts on a population between training batches."""
