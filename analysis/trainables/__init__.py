"""What learning did to the weights: measures of saved histories of trainables."""
